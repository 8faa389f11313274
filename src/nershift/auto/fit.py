"""`nershift fit`: look at what there is, let recipes race on it, train the winner on all of it, and say why."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nershift.auto.ask import Ask, ask_for
from nershift.auto.costs import Speed, reference
from nershift.auto.evidence import Knowledge, read_evidence
from nershift.auto.fitting import Fitting, Tell, room, situation_of
from nershift.auto.jobs import Job, probe_on
from nershift.auto.plan import Plan, make_plan
from nershift.auto.result import Fit
from nershift.auto.situation import Situation
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence

log = logging.getLogger(__name__)


def fit(
    target: Corpus,
    sources: Sequence[Corpus] = (),
    *,
    out: str | Path,
    raw: Mapping[str, Sequence[Sentence]] | None = None,
    encoder: str = "auto",
    minutes: float = 10.0,
    shots: int | None = None,
    ratio: float | None = None,
    seed: int = 1,
    same: Mapping[str, str] | None = None,
    one_model: bool = False,
    download: bool = False,
    device: str = "auto",
    workers: int = 0,
    ray: str | None = None,
    start: str | Path | None = None,
    overwrite: bool = False,
    report: bool = True,
    tell: Tell | None = None,
    **more: Any,
) -> Fit:
    """The best tagger for ``target`` that the time allows, in the folder ``out``.

    The test split is read once, when the choice is made. Everything else is chosen on the dev split, or on labels that
    are held out in turn. Calling it again after an interruption goes on without repeating what is finished.

    Args:
        sources: labelled corpora of other domains.
        raw: unlabelled text by domain (``target``: of the target).
        encoder: ``auto`` (one that is on this machine, if any), ``none``, ``small``, ``base``, ``multilingual``, a
            folder, or a name on the hub.
        minutes: how long it may take, within 15%.
        shots: how many labelled sentences to use (``ratio``: which share); the dev split is then not used.
        same: target type → source type, where names do not tell.
        one_model: never several taggers that vote.
        download: an encoder that is not on this machine may be fetched.
        workers: trainings at once; 0: as many as there are cores.
        ray: the address of a Ray cluster to race on.
        start: the folder of a tagger to go on with; what it can do beside learning anew is one of the recipes.
        tell: called with each line of progress; by default they are logged.
        more: for experiments: ``without`` (corpora whose evidence is left out), ``recipes`` (the only ones to
            consider), ``places`` (where corpora came from, for the command that is printed).

    Example:
        >>> from nershift import fit, read_corpus
        >>> clinic = read_corpus("corpora/clinic")
        >>> done = fit(clinic, shots=1, out="runs/fit", minutes=3, recipes=["target_only"], tell=lambda line: None)
        >>> done.winner, done.facts["plan"]["situation"]["labelled"], done.tagger().types
        ('target_only', 1, ('drug', 'person', 'place'))
    """
    ask = ask_for(target, sources, raw, encoder, seed, same, one_model, download, device, shots, ratio, start, more)
    return Fitting(ask, Path(out), minutes, workers, ray, overwrite, report, tell or log.info).run()


def plan(
    target: Corpus, sources: Sequence[Corpus] = (), *, minutes: float = 10.0, workers: int = 0, **asked: Any
) -> Plan:
    """What :func:`fit` would do, within seconds: nothing is trained but a few updates that are timed.

    Example:
        >>> from nershift import fit_plan, read_corpus
        >>> [c.recipe.name for c in fit_plan(read_corpus("corpora/clinic"), shots=20, encoder="none").candidates]
        ['target_only']
    """
    values = {"raw": None, "encoder": "auto", "seed": 1, "same": None, "one_model": False, "download": False}
    values |= {"device": "auto", "shots": None, "ratio": None, "start": None}
    known = {name: asked.pop(name, value) for name, value in values.items()}
    ask = ask_for(target, sources, **known, more=asked)
    here = situation_of(ask)
    places, threads = room(here, workers)
    speed = Speed()
    speed.plain = speed.pretrained = _quick_probe(ask, here)
    return make_plan(here, Knowledge(read_evidence(ask.without)), speed, minutes, places, threads, ask.recipes)


def _quick_probe(ask: Ask, here: Situation) -> float:
    """How much slower than the reference this machine trains a small tagger."""
    if not here.labelled:
        return 1.0
    job = Job("probe", "probe", "target_only", {"device": ask.device}, ask.seed, "")
    return probe_on(job, ask.target) / reference(here, pretrained=False)
