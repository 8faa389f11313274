"""The model card of a tagger: its data, method, scores and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nershift import __version__
from nershift.errors import NershiftError


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
        repo_id: under which the tagger can be loaded.
        types: entity types.
        meta: of the tagger.
        metrics: of the run, where there is one (``metrics.json``).
        license: an identifier of the hub, such as ``mit``; for the weights, which the data may decide.
        language: code of the language, such as ``en``.
        about: text by the author, shown first.
    """
    metrics = metrics or {}
    head: dict[str, Any] = {"license": license, "library_name": "nershift"}
    if language:
        head["language"] = language
    head |= {"pipeline_tag": "token-classification", "tags": ["named-entity-recognition", "nershift"]}
    if "test" in metrics:
        head |= {"metrics": ["f1", "precision", "recall"], "model-index": [_index(repo_id, metrics)]}
    parts = [
        f"# {repo_id.split('/')[-1]}",
        *([about] if about else []),
        f"A named entity recogniser for {_listed(types)}.",
        "## Use",
        f'```python\nfrom nershift import Tagger\n\ntagger = Tagger.from_pretrained("{repo_id}")\n'
        'tagger("Some text.")  # entities with offsets, types and probabilities\n```',
        "## Data",
        *_data(meta, metrics),
        "## Method",
        *_method(meta, metrics),
        "## Scores",
        *_scores(metrics),
        "## Limits",
        *_limits(types, metrics, bool(meta.get("overlapping"))),
    ]
    header = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    return f"---\n{header}---\n\n" + "\n\n".join(parts) + "\n"


def read_metrics(folder: Path | None) -> dict[str, Any] | None:
    """``metrics.json`` of a folder, if there is one that can be read."""
    if folder is None:
        return None
    try:
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return metrics if isinstance(metrics, dict) else None


def _index(repo_id: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    test, name = metrics["test"], str(metrics.get("target", "target"))
    values = [{"type": key, "value": round(float(test[key]), 4)} for key in ("f1", "precision", "recall")]
    result = {
        "task": {"type": "token-classification", "name": "named entity recognition"},
        "dataset": {"type": name, "name": name, "split": "test"},
        "metrics": values,
    }
    return {"name": repo_id.split("/")[-1], "results": [result]}


def _data(meta: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[str]:
    target = metrics.get("target", meta.get("target"))
    if not target:
        return ["Not recorded."]
    digest = dict(metrics.get("data", {})).get("target_digest")
    known = f" (digest `{digest}`)" if digest else ""
    count = f": {metrics['labelled']} labelled sentences of" if "labelled" in metrics else ":"
    lines = [f"Trained for{count} `{target}`{known}."]
    if metrics.get("sources"):
        lines.append(f"Learned first, or along with it, from {_listed(metrics['sources'])}.")
    if raw := dict(metrics.get("data", {})).get("raw"):
        lines.append(f"Unlabelled text: {_listed(raw)}.")
    return lines


def _method(meta: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[str]:
    from nershift.methods import METHODS

    name = str(metrics.get("method", meta.get("method", "")))
    if not name:
        return ["Not recorded."]
    try:
        method = METHODS[name]
        line = f"`{name}`: {method.summary}. Paper: {method.paper}."
    except NershiftError:  # of a plugin that is not here, or a later version
        line = f"`{name}`."
    version = f"nershift {metrics.get('version', __version__)}, seed {metrics.get('seed', meta.get('seed', '?'))}"
    chosen = f"; weights: {metrics['selection']}" if "selection" in metrics else ""
    return [line, f"Made by {version}{chosen}."]


def _scores(metrics: Mapping[str, Any]) -> list[str]:
    splits = [name for name in ("dev", "test") if name in metrics]
    if not splits:
        return ["This tagger was not scored: no labelled sentences were set aside."]
    rows = ["| split | sentences | entities | precision | recall | F1 | 95% interval of F1 |"]
    rows.append("|---|---:|---:|---:|---:|---:|---:|")
    for name in splits:
        got = metrics[name]
        low, high = got.get("interval", (None, None))
        interval = f"{_percent(low)} to {_percent(high)}" if low is not None else ""
        rows.append(
            f"| {name} | {got['sentences']} | {got['support']} | {_percent(got['precision'])} "
            f"| {_percent(got['recall'])} | {_percent(got['f1'])} | {interval} |"
        )
    last = metrics[splits[-1]]
    kinds = [f"| type ({splits[-1]}) | entities | precision | recall | F1 |", "|---|---:|---:|---:|---:|"]
    for kind, got in sorted(last["by_type"].items()):
        kinds.append(
            f"| {kind} | {got['support']} | {_percent(got['precision'])} | {_percent(got['recall'])} "
            f"| {_percent(got['f1'])} |"
        )
    note = "An entity counts if its borders and its type are right. Intervals: bootstrap over sentences."
    if "dev" in splits:
        note += " Weights were chosen by dev, whose score is therefore too good."
    return [note, "\n".join(rows), "\n".join(kinds)]


def _limits(types: Sequence[str], metrics: Mapping[str, Any], overlapping: bool) -> list[str]:
    lines = [
        f"- It knows {_listed(types)} and nothing else; other names are left untagged or taken for one of these.",
        "- Entities have no gaps."
        if overlapping
        else "- Entities are flat: none lies within another, and none has a gap.",
        "- Text of another domain or language than the data above is tagged less well, without a warning.",
    ]
    if "test" not in metrics:
        lines.append("- There is no test score to judge it by.")
    weak = [
        kind for kind, got in sorted(dict(metrics.get("test", {}).get("by_type", {})).items()) if got["support"] < 30
    ]
    if weak:
        lines.append(f"- Fewer than 30 test entities, so hardly measured: {_listed(weak)}.")
    calibrated = "temperature" in dict(metrics.get("calibration") or {})
    lines.append(
        "- Confidences were calibrated on the dev split; elsewhere they may be too high."
        if calibrated
        else "- Confidences were not calibrated: take them for a ranking, not for probabilities."
    )
    return ["\n".join(lines)]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
