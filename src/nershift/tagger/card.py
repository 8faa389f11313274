"""The model card of a tagger: its data, method, scores and limits. The text is ``reports/templates/card.md.jinja``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from nershift import __version__
from nershift.errors import NershiftError
from nershift.methods import METHODS
from nershift.reports import run
from nershift.reports.html import page

_RARE = 30  # a score over fewer test entities says little


def model_card(
    repo_id: str,
    types: Sequence[str],
    meta: Mapping[str, Any],
    metrics: Mapping[str, Any] | None,
    license: str,
    language: str = "",
    about: str = "",
) -> str:
    """Markdown with the hub's YAML header.

    Args:
        repo_id: name on the hub.
        types: entity types.
        meta: of the tagger.
        metrics: ``metrics.json`` of the run, if there is one.
        license: of the weights, as the hub names it, such as ``mit``. The licence of the data may decide it.
        language: language code, such as ``en``.
        about: text by the author, shown first.
    """
    metrics = metrics or {}
    name, method = repo_id.split("/")[-1], str(metrics.get("method", meta.get("method", "")))
    header: dict[str, Any] = {"license": license, "library_name": "nershift"}
    if language:
        header["language"] = language
    header |= {"pipeline_tag": "token-classification", "tags": ["named-entity-recognition", "nershift"]}
    if "test" in metrics:
        header |= {"metrics": ["f1", "precision", "recall"], "model-index": [_index(name, metrics)]}
    paper = None
    with suppress(NershiftError):  # the method of a plugin that is not installed, or of a later version
        paper = METHODS[method]
    return page(
        "card.md.jinja",  # not .md: the wheel has no pages
        header=yaml.safe_dump(header, sort_keys=False, allow_unicode=True),
        name=name,
        repo_id=repo_id,
        about=about,
        types=types,
        metrics=metrics,
        target=metrics.get("target", meta.get("target")),
        method=method,
        paper=paper,
        version=__version__,
        seed=metrics.get("seed", meta.get("seed", "?")),
        splits=[split for split in ("dev", "test") if split in metrics],
        overlapping=meta.get("overlapping"),
        rare=sorted(k for k, s in metrics.get("test", {}).get("by_type", {}).items() if s["support"] < _RARE),
    )


def read_metrics(folder: Path | None) -> dict[str, Any] | None:
    """``metrics.json`` of a folder, or None if it is missing or unreadable."""
    with suppress(OSError, NershiftError):
        return (run.read_metrics(folder) or None) if folder else None
    return None


def _index(name: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    test, corpus = metrics["test"], str(metrics.get("target", "target"))
    result = {
        "task": {"type": "token-classification", "name": "named entity recognition"},
        "dataset": {"type": corpus, "name": corpus, "split": "test"},
        "metrics": [{"type": key, "value": round(float(test[key]), 4)} for key in ("f1", "precision", "recall")],
    }
    return {"name": name, "results": [result]}
