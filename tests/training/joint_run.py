"""One small run, to be started as one process or, by `torch.distributed.run`, as several.

Usage: joint_run.py FOLDER OPTIMIZER PROCESSES
"""

from __future__ import annotations

import sys
from typing import Any

from nershift import builtin_corpus
from nershift.run import transfer
from nershift.training.processes import Processes


def main() -> None:
    with Processes("cpu") as processes:
        assert processes.world == int(sys.argv[3]), processes.world
    whole = builtin_corpus("clinic")
    # 61 sentences in batches of 12: odd shares, and a last batch of one sentence.
    corpus = whole.with_splits(train=whole.train[:61], dev=whole.dev[:20], test=whole.test[:20])
    settings: dict[str, Any] = {
        "device": "cpu",
        "preset": "paper",
        "encoder": {
            "words": {"size": 12},
            "chars": {"filters": 12},
            "recurrent": {"size": 16},
            "dropout": 0.0,
        },
        "train": {
            "epochs": 3,
            "batch_size": 12,
            "lr": 0.05,
            "optimizer": sys.argv[2],
            "mention_replacement": 0.3,
            "model_soup": 2,
            "checkpoint_seconds": 0.05,
        },
    }
    transfer("target_only", corpus, out=sys.argv[1], config=settings, quiet=True)


if __name__ == "__main__":
    main()
