"""How much of the code a reader meets: files and functions that one run executes, lines, import time, package sizes.

    python benchmarks/structure.py [SRC ...] [--build]

``SRC`` is the ``src`` folder of a checkout (this one by default); several are printed side by side, such as an older
commit and this one. With ``--build`` the wheel and the sdist are built too, which needs the package ``build``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parents[1]


def trace(source: Path) -> dict[str, int]:
    """Files with an executed function, and functions, in one short MetaNER run and one prediction; imports are done."""
    sys.path.insert(0, str(source))
    from nershift import Tagger, builtin_corpus, transfer

    corpora = [builtin_corpus(name) for name in ("news", "court", "clinic")]
    quick = {"pretrain": {"max_steps": 3}, "train": {"max_steps": 3}, "device": "cpu"}
    executed: dict[str, set[str]] = defaultdict(set)
    package = str(source / "nershift")

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package) and code.co_flags & inspect.CO_OPTIMIZED:
            executed[code.co_filename].add(code.co_qualname)

    with tempfile.TemporaryDirectory() as folder:
        for traced in (False, True):  # the first time everything is imported
            run = Path(folder, str(traced))
            if traced:
                threading.setprofile(note)
                sys.setprofile(note)
            transfer("metaner", corpora[2], corpora[:2], shots=40, out=run, config=quick, report=False, quiet=True)
            Tagger.load(run)("Dr. Osei gave her 20 mg of Velmorin.")
        sys.setprofile(None)
        threading.setprofile(None)
    return {"executed files": len(executed), "executed functions": sum(map(len, executed.values()))}


def measure(source: Path, build: bool) -> dict[str, float]:
    called = subprocess.run(
        [sys.executable, __file__, "--trace", str(source)], capture_output=True, text=True, check=True
    )
    row: dict[str, float] = json.loads(called.stdout.splitlines()[-1])
    files = list((source / "nershift").rglob("*.py"))
    row["lines"] = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    row["files"] = len(files)
    times = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import nershift"], env={"PYTHONPATH": str(source)}, check=True)
        times.append(time.perf_counter() - began)
    row["import and start of Python, ms"] = round(1000 * statistics.median(times))
    if build:
        with tempfile.TemporaryDirectory() as out:
            subprocess.run(
                [sys.executable, "-m", "build", "-o", out, str(source.parent)], capture_output=True, check=True
            )
            for kind, pattern in (("wheel, kB", "*.whl"), ("sdist, kB", "*.tar.gz")):
                row[kind] = round(next(Path(out).glob(pattern)).stat().st_size / 1000)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=Path, default=[HERE / "src"])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trace:
        print(json.dumps(trace(options.trace.resolve())))
        return
    rows = {str(source): measure(source.resolve(), options.build) for source in options.sources}
    for name in next(iter(rows.values())):
        print(f"{name:32}", *(f"{row[name]:>10}" for row in rows.values()))


if __name__ == "__main__":
    main()
