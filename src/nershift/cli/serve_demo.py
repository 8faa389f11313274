"""What `serve --demo` serves: a small tagger of the built-in news, trained on first use, and texts to try it on."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nershift import __version__
from nershift.console import make_console

if TYPE_CHECKING:
    from nershift.server.service import Service

SOURCE = "news"
SAMPLES = ("news", "clinic")  # what it knows, and a domain with types that it has yet to learn
_SENTENCES = 24
_SETTINGS: Mapping[str, Any] = {"device": "cpu", "train": {"updates": 300, "batch_size": 8}}


def cache_folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where this system keeps what a program can make again.

    Example:
        >>> cache_folder({"XDG_CACHE_HOME": "/tmp/c"}, "linux").as_posix()
        '/tmp/c/nershift'
    """
    if given := environment.get("XDG_CACHE_HOME"):
        return Path(given) / "nershift"
    if platform == "win32" and (local := environment.get("LOCALAPPDATA")):
        return Path(local) / "nershift"
    return Path.home() / ("Library/Caches" if platform == "darwin" else ".cache") / "nershift"


def demo_run(settings: Mapping[str, Any] = _SETTINGS) -> Path:
    """The run folder of the demo's tagger. An interrupted first use goes on where it stopped."""
    from nershift.data.builtin import builtin_corpus
    from nershift.run import transfer

    folder = cache_folder() / f"demo-{__version__}"
    if not (folder / "metrics.json").exists():
        console = make_console(stderr=True)
        console.print(f"First use: a small tagger is trained, about ten seconds. It is kept in {folder}", markup=False)
        transfer("target_only", builtin_corpus(SOURCE), out=folder, config=settings, report=False)
    return folder


def add_samples(service: Service) -> None:
    """Put a text of each domain into the queue, unless files are there already."""
    from nershift.data.builtin import builtin_corpus

    if service.uploads.list():
        return
    for domain in SAMPLES:
        sentences = builtin_corpus(domain).splits["test"][:_SENTENCES]
        text = "".join(f"{' '.join(sentence.tokens)}\n" for sentence in sentences)
        service.uploads.add([(f"{domain}.raw", base64.b64encode(text.encode()).decode())], "raw")
