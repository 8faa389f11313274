"""Do other domains help? The same 20 labelled sentences alone and after two other domains, compared by a paired test.

python examples/other_domains.py [OUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import nershift

# A fifth of the default training, so that this example is quick. Both rows train equally long on the target.
CONFIG = {"pretrain": {"updates": 300}, "train": {"updates": 200}}


def main(out: Path) -> None:
    target = nershift.builtin_corpus("travel")
    sources = [nershift.builtin_corpus(name) for name in ("news", "sports")]
    common = {"shots": 20, "config": CONFIG, "quiet": True, "overwrite": True}
    alone = nershift.transfer("target_only", target, out=out / "alone", **common)
    moved = nershift.transfer("finetune", target, sources, out=out / "moved", **common)
    for name, run in (("alone", alone), ("after other domains", moved)):
        print(f"{name:20} F1 {100 * run.f1:.1f}")
    print(nershift.compare(alone, moved).verdict("alone", "after other domains"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "runs/other-domains"))
