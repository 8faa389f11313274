"""Build the wheel and the source archive, install each in a clean environment, and run the quickstart there.

    python tools/release_check.py [--torch torch==2.13.0] [--only wheel]

Needs the package `build`. The environments are made in a temporary folder and removed again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_DESCRIPTION = "from importlib.metadata import metadata; print(metadata('nershift').get_payload())"
TEXT = "Dr. Osei gave her 20 mg of Velmorin."
# First steps with the built-in corpora, with a tenth of the updates: this checks the package, not the tagger.
QUICKSTART: tuple[tuple[str, ...], ...] = (
    ("--version",),
    ("builtin", "corpora"),
    ("check", "corpora/clinic"),
    (
        "transfer", "--method", "finetune", "--source", "corpora/news,corpora/court,corpora/market,corpora/chat",
        "--target", "corpora/clinic", "--shots", "40", "--out", "runs/clinic", "--quiet",
        "--set", "pretrain.updates=150", "--set", "train.updates=100",
    ),
    ("predict", "--model", "runs/clinic", "-"),
    ("methods",),
)  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--torch", default="torch", help="what to install as torch, first")
    options.add_argument("--only", choices=("wheel", "sdist"), help="check one of the two")
    chosen = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nershift-release-") as scratch:
        for kind, archive in build(ROOT / "dist"):
            if chosen.only in (None, kind):
                began = time.monotonic()
                check(archive, Path(scratch) / kind, chosen.torch)
                sys.stdout.write(f"{archive.name}: installed and tried in {time.monotonic() - began:.0f} s\n")


def build(out: Path) -> Iterator[tuple[str, Path]]:
    """The wheel is built from the source archive, as whoever installs from that gets it."""
    for old in out.glob("nershift-*"):
        old.unlink()
    run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], ROOT)
    yield "wheel", next(out.glob("nershift-*.whl"))
    yield "sdist", next(out.glob("nershift-*.tar.gz"))


def check(archive: Path, folder: Path, torch: str) -> None:
    """Install in an environment without anything, away from the checkout, and run the quickstart."""
    venv.create(folder / "env", with_pip=True)
    bin = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    run([str(bin / "python"), "-m", "pip", "install", "-q", torch], folder)
    run([str(bin / "python"), "-m", "pip", "install", "-q", str(archive)], folder)
    found = run([str(bin / "python"), "-c", "import nershift; print(nershift.__file__)"], folder)
    if not Path(found.strip()).is_relative_to(folder):
        raise SystemExit(f"the quickstart would not run what was installed, but {found}")
    described = run([str(bin / "python"), "-c", _DESCRIPTION], folder)
    if local := local_links(described):
        raise SystemExit(f"the description for the package index has links that lead nowhere there: {local}")
    for command in QUICKSTART:
        said = run([str(bin / "nershift"), *command], folder, TEXT)
        if command[0] == "predict" and "Velmorin" not in said:
            raise SystemExit(f"nershift predict printed {said!r}")


def local_links(markdown: str) -> list[str]:
    """Links and pictures without a whole address.

    Example:
        >>> local_links("[a](docs/a.md) ![b](b.png) [c](https://c.org) [d](#d)")
        ['docs/a.md', 'b.png']
    """
    return re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", markdown)


def run(command: Sequence[str], folder: Path, text: str = "") -> str:
    """What a command prints; without PYTHONPATH, which would lead back to the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
