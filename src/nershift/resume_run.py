"""A finished run that goes on: more updates from its last state, then new scores in the same folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nershift.arguments import as_path, found
from nershift.config import MOST_UPDATES, Config, build, read_yaml
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, ConfigError, OtherRunError
from nershift.reports.run import write_report
from nershift.run_arguments import as_raw, check_corpus, check_sources
from nershift.run_folder import LAST_STATE, Run, lock, write_results
from nershift.run_request import Request
from nershift.run_stages import facts_of, train_tagger
from nershift.storage import write_text
from nershift.training.processes import Processes, threads_for


def resume(
    folder: str | Path,
    target: Corpus,
    sources: Sequence[Corpus] = (),
    *,
    updates: int,
    raw: Mapping[str, Sequence[Sentence]] | None = None,
    quiet: bool = False,
) -> Run:
    """Train a finished run for ``updates`` more, from its last weights and optimiser state.

    A schedule that depends on the length follows that of the whole, longer training. The mean of the last weights is
    taken over updates from now on. Weights that dev selected before
    stay unless later ones are better. An interrupted call goes on when it is repeated.

    Args:
        target: the corpora that the run was trained on: other data is refused.

    Example:
        >>> from nershift import read_corpus, resume, transfer
        >>> clinic = read_corpus("corpora/clinic")
        >>> short = {"train": {"updates": 5}}
        >>> run = transfer("target_only", clinic, out="runs/short", shots=20, config=short, quiet=True)
        >>> resume("runs/short", clinic, updates=5, quiet=True).metrics["phases"]["train"]["steps"]
        10
    """
    run = Run.open(as_path(folder, "folder", "the folder of a finished run"))
    if not isinstance(updates, int) or not 1 <= updates <= MOST_UPDATES:
        raise ConfigError(found(updates), place="updates", expected=f"a whole number, 1 to {MOST_UPDATES:,}")
    check_corpus(target, "target")
    check_sources(sources)
    request = _request(run, target, sources, as_raw(raw))
    method, before = request.build_method(), run.metrics["phases"]["train"]
    total = before["steps"] + updates
    threads = threads_for(request.config.encoder)
    with Processes(request.config.device, threads) as processes, lock(run.folder, processes):
        began = time.monotonic()
        tagger, stages = train_tagger(request, method, run.folder, processes, quiet, total)
        if processes.main:
            facts = {"data": request.identity()["data"]} | facts_of(request, method, tagger.model, stages)
            facts["seconds"] = run.metrics["seconds"] + time.monotonic() - began
            facts["remarks"] = [*facts["remarks"], f"Training went on after update {before['steps']}."]
            write_results(run.folder, tagger, method, facts, request.unused_dev)
            _write_settings(run.folder, total, before["total"])
            write_report(run.folder)
        processes.wait()
    return Run.open(folder)


def _request(run: Run, target: Corpus, sources: Sequence[Corpus], raw: Mapping[str, Sequence[Sentence]]) -> Request:
    """What the run was asked for, on data that must be the same."""
    values = read_yaml(run.folder / "config.yaml")
    data = values.pop("data")
    config = build(Config, values, saved=True)
    if "train" not in run.metrics.get("phases", {}) or not (run.folder / LAST_STATE).exists():
        raise CheckpointError(
            "has no state to go on from" + _why_not(config, run),
            place=str(run.folder),
            expected=f"the file {LAST_STATE}",
            fix=f"train anew with more updates: --set train.updates={_enough(run)} and another --out",
        )
    start = None if data["start"] is None else Path(data["start"])
    request = Request(config.method, config, sources, target, raw, data["shots"], data["ratio"], start)
    if request.identity()["data"] != data:
        raise OtherRunError(
            "was trained on other data than that given now",
            place=str(run.folder),
            expected=f"target '{data['target']}', sources: {', '.join(data['sources']) or 'none'}, unchanged",
            fix="give the corpora that the run was trained on",
        )
    return request


def _why_not(config: Config, run: Run) -> str:
    if config.train.model_soup > 1:
        return ": it is the mean of several trainings"
    if "train" not in run.metrics.get("phases", {}):
        return ": it did not train on the target"
    return " (a large one is only kept where the last weights were the best)"


def _enough(run: Run) -> int:
    return 2 * int(run.metrics.get("phases", {}).get("train", {}).get("steps", 500))


def _write_settings(folder: Path, total: int, before: int) -> None:
    """The settings of the longer run: what trains it in one go. ``before``: the updates that they gave until now."""
    values: dict[str, Any] = read_yaml(folder / "config.yaml")
    train = values["train"] | {"updates": total}
    train["epochs"] = -(-total * train["epochs"] // max(1, before))
    write_text(folder / "config.yaml", yaml.safe_dump(values | {"train": train}, sort_keys=False, allow_unicode=True))
