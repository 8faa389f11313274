"""What a finished run has to say of itself: that it failed, what it lacks, and what to do next.

All of it is read from what the run recorded (``metrics.json``, the log, the settings). What is not recorded, as in
runs of earlier versions, gives no warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["failed", "warning", "hint"]
LEVELS: tuple[Level, ...] = ("failed", "warning", "hint")

USABLE = 0.05  # F1 below which a tagger is of no use
FEWEST_UPDATES = 200  # of the target stage
_ENOUGH_UPDATES = 1000  # what to try instead
_FLAT = 0.005  # F1 gained in the last quarter of training that still counts as nothing
_FOUND, _RIGHT = 0.05, 0.1  # recall and precision below which almost nothing is found, or almost all of it is wrong
_FITTED, _FELL = 0.5, 0.9  # last loss / first loss of a fitted model: from a random start, and from a trained one
_GOOD = 0.5  # F1 from which on the loss is nobody's concern
_FEW_ENTITIES, _FEW_SENTENCES = 200, 1000
_SHY = 1 / 3  # of the share of labelled sentences with entities: what a teacher should find at least
_RARE = 5  # a type with fewer gold mentions may well be missed
_NAMED = 6  # types that a sentence names

UPDATES = f"`--set train.updates={_ENOUGH_UPDATES}`"
VECTORS = "`--set encoder.words.vectors=FILE`"
ENCODER = "`--set encoder.kind=transformer --set encoder.transformer.name=NAME`"


@dataclass(frozen=True)
class RunWarning:
    """One thing to know about a run. ``fix`` is the next step, with commands and settings in backquotes.

    In a command, ``RUN`` stands for the folder of the run.
    """

    kind: str
    level: Level
    found: str
    fix: str

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> RunWarning:
        return cls(row["kind"], row["level"], row["found"], row["fix"])


@dataclass(frozen=True)
class FinishedRun:
    """What a run recorded; what it did not record reads as None or empty."""

    metrics: Mapping[str, Any]
    log: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any]

    def setting(self, name: str) -> Any:
        """The value of a setting by its dotted name."""
        value: Any = self.config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def stage(self, name: str) -> Mapping[str, Any]:
        return (self.metrics.get("phases") or {}).get(name) or {}

    def entries(self, stage: str) -> list[Mapping[str, Any]]:
        """What a stage logged, an entry for each evaluation."""
        return [entry for entry in self.log if entry.get("phase") == stage]

    @property
    def splits(self) -> dict[str, Mapping[str, Any]]:
        """Scores of the splits that have entities."""
        found = {name: self.metrics.get(name) or {} for name in ("dev", "test")}
        return {name: scores for name, scores in found.items() if scores.get("support")}

    @property
    def judged(self) -> tuple[str, Mapping[str, Any]] | None:
        """The split that says whether the tagger is of use: dev or, without one, test."""
        return next(iter(self.splits.items()), None)

    @property
    def unusable(self) -> bool:
        return self.judged is not None and self.judged[1]["f1"] < USABLE

    @property
    def mentions(self) -> Mapping[str, int] | None:
        """Labelled entities of each type; None if the run learned no labels of the target."""
        return self.metrics.get("labelled_mentions")

    @property
    def transferred(self) -> bool:
        """Did it learn from anything but its own labels?"""
        return bool(self.metrics.get("sources") or self.metrics.get("start"))

    @property
    def random_words(self) -> bool:
        """Word vectors that come from no file and no encoder."""
        recurrent = self.setting("encoder.kind") == "recurrent"
        return recurrent and not self.setting("encoder.words.vectors") and not self.setting("encoder.words.subwords")

    @property
    def few_updates(self) -> bool:
        """Were too few updates planned for the target?"""
        return 0 < (self.stage("train").get("total") or 0) < FEWEST_UPDATES


def run_warnings(
    metrics: Mapping[str, Any], log: Sequence[Mapping[str, Any]] = (), config: Mapping[str, Any] | None = None
) -> list[RunWarning]:
    """All warnings about a finished run, the worst first.

    Args:
        metrics: as ``metrics.json`` has them. Of use are ``dev``, ``test``, ``phases``, ``selection``, ``labelled``,
            ``labelled_mentions`` (how many of each type), ``sources`` and ``start``.
        log: the entries of ``log.jsonl``.
        config: the settings, nested as in ``config.yaml``.

    Example:
        >>> scores = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "support": 40, "predicted": 0, "correct": 0}
        >>> [worst] = run_warnings({"dev": scores, "sources": ["news"]})
        >>> worst.level, worst.found
        ('failed', 'This tagger is not usable: F1 0.00 on dev. It found none of the 40 entities.')
    """
    run = FinishedRun(metrics, log, config or {})
    made = [check(run) for check in _CHECKS]
    return sorted((w for w in made if w is not None), key=lambda w: LEVELS.index(w.level))


# -- is it of use? -------------------------------------------------------------------------------------------


def _unusable(run: FinishedRun) -> RunWarning | None:
    if run.judged is None or not run.unusable:
        return None
    split, scores = run.judged
    found = f"This tagger is not usable: F1 {_percent(scores['f1'])} on {split}. {_outcome(scores)}"
    if run.mentions is not None and sum(run.mentions.values()) < _FEW_ENTITIES:
        found += f" It learned from {_counted(sum(run.mentions.values()), 'labelled entity', 'labelled entities')}."
    return RunWarning("unusable", "failed", found, _ways_out(run))


def _outcome(scores: Mapping[str, Any]) -> str:
    entities = _counted(scores["support"], "entity", "entities")
    if not scores["predicted"]:
        return f"It found none of the {entities}."
    wrong = scores["predicted"] - scores["correct"]
    return f"It found {scores['correct']:,} of the {entities}; {wrong:,} of its {scores['predicted']:,} are wrong."


def _silent_teacher(run: FinishedRun) -> RunWarning | None:
    """Of teacher and student, where the last labels of the text have no entity, or in far too few sentences."""
    stage = run.stage("train")
    gold, text = stage.get("gold_filled"), stage.get("text_filled")
    if text is None:
        return None
    if not text:
        fix = "Give the teacher more labels or a source, or check that the text is in its language and domain."
        return RunWarning("silent_teacher", "warning", "The teacher found no entity in the text.", fix)
    if not gold or text > _SHY * gold:
        return None
    found = (
        f"The teacher found entities in {_percent(text)} % of the text's sentences; {_percent(gold)} % of the labelled "
        "ones have some. A student learns from that to find even fewer."
    )
    fix = "Fewer sentences without entities (`--set options.empty_share=0.2`), or train without the text and compare."
    return RunWarning("shy_teacher", "warning", found, fix)


def _ways_out(run: FinishedRun, most: int = 5) -> str:
    """What may help, by what the run did not have."""
    ways = []
    if run.few_updates:
        ways.append(f"more updates ({UPDATES})")
    if run.mentions is not None and sum(run.mentions.values()) < _FEW_ENTITIES:
        ways.append("more labelled sentences")
    if not run.transferred:
        ways.append("a labelled corpus of another domain (`--method finetune --source CORPUS`)")
    if run.setting("encoder.kind") == "recurrent":
        ways.append(f"a pretrained encoder ({ENCODER})")
    if run.random_words:
        ways.append(f"word vectors ({VECTORS})")
    if not ways:
        return "Look at the learning log in the report, and try another learning rate (`--set train.lr=…`)."
    return f"What may help: {_or(ways[:most])}."


def _lopsided(run: FinishedRun) -> RunWarning | None:
    if run.judged is None or run.unusable:
        return None
    split, scores = run.judged
    if scores["recall"] < _FOUND:
        kind, found = "few_found", f"Almost nothing is found on {split}."
    elif scores["precision"] < _RIGHT:
        kind, found = "mostly_wrong", f"Almost all that is found on {split} is wrong."
    else:
        return None
    return RunWarning(kind, "warning", f"{found} {_outcome(scores)}", _ways_out(run, 2))


# -- was it trained enough? ----------------------------------------------------------------------------------


def _undertrained(run: FinishedRun) -> RunWarning | None:
    if not _still_rising(run, "train"):
        return None
    stage = run.stage("train")
    found = (
        f"Training ended while dev F1 was still rising: the best, {_percent(stage['dev_f1'])}, came with the last of "
        f"{stage['total']:,} updates."
    )
    return RunWarning("undertrained", "warning", found, _go_on(run))


def _pretrained_too_little(run: FinishedRun) -> RunWarning | None:
    if not _still_rising(run, "pretrain"):
        return None
    total, epochs = run.stage("pretrain")["total"], run.setting("pretrain.epochs")
    capped = (run.setting("pretrain.updates") or total + 1) <= total
    longer = f"pretrain.epochs={2 * epochs}" if epochs and not capped else f"pretrain.updates={2 * total}"
    found = f"Pre-training ended after {total:,} updates, while dev F1 of the sources was still rising."
    return RunWarning("pretraining_undertrained", "hint", found, f"`--set {longer}`")


def _still_rising(run: FinishedRun, name: str) -> bool:
    """Was the last of the planned updates the best, and better than what was reached before the last quarter?"""
    stage = run.stage(name)
    if stage.get("dev_f1") is None or not stage.get("total"):
        return False
    if not stage.get("best_step") == stage.get("steps") == stage["total"]:
        return False
    scores = [(e["step"], e["dev_f1"]) for e in run.entries(name) if e.get("dev_f1") is not None]
    before = [f1 for step, f1 in scores if step <= 0.75 * stage["total"]] or [f1 for _, f1 in scores[:-1]]
    return bool(before) and stage["dev_f1"] - max(before) >= _FLAT


def _high_loss(run: FinishedRun) -> RunWarning | None:
    stage = run.stage("train")
    first, last = stage.get("first_loss"), stage.get("last_loss")
    if run.mentions is None or first is None or last is None or first <= 0 or len(run.entries("train")) < 2:
        return None
    started = run.metrics.get("start") or run.stage("pretrain")  # such a model may fit from the beginning
    if last < first * (_FELL if started else _FITTED) or (run.judged and run.judged[1]["f1"] >= _GOOD):
        return None
    how, fix = "fell only", _go_on(run)
    if last >= first:
        how, fix = (
            "did not fall",
            f"A lower learning rate: `--set train.lr={(run.setting('train.lr') or 1e-3) / 10:g}`.",
        )
    found = f"The training loss {how} ({first:.3g} at first, {last:.3g} at the end): its own labels are not fitted."
    return RunWarning("high_loss", "warning", found, fix)


def _go_on(run: FinishedRun) -> str:
    """Train as long again, but not for a moment only."""
    more = max(run.stage("train")["steps"], FEWEST_UPDATES)
    if run.metrics.get("resumable") is False:
        return f"`--set train.updates={2 * more}` and another `--out`."
    return f"`nershift resume RUN --updates {more}` goes on."


def _few_updates(run: FinishedRun) -> RunWarning | None:
    epochs, updates = run.setting("train.epochs"), run.setting("train.updates")
    if not run.few_updates or not epochs:
        return None
    total = run.stage("train")["total"]
    if updates and updates <= total:  # as asked
        return None
    each = -(-total // epochs)
    found = (
        f"{_counted(epochs, 'epoch')} of {_counted(each, 'update')} made only {_counted(total, 'update')}: "
        "few labels need as many updates as many labels do."
    )
    return RunWarning("few_updates", "warning", found, UPDATES)


# -- which types does it know? -------------------------------------------------------------------------------


def _never_predicted(run: FinishedRun) -> RunWarning | None:
    mentions = run.mentions or {}
    types = {t: n for t, n in _missed_types(run).items() if mentions.get(t) and n >= _RARE}
    if not types or not any(scores["predicted"] for scores in run.splits.values()):  # that it found nothing is said
        return None
    rows = [f"{t} ({n:,} in {_and(run.splits)}, {mentions[t]:,} labelled)" for t, n in types.items()]
    fix = "Label more sentences with them; `nershift next --model RUN TEXT --out FILE` chooses some."
    return RunWarning("never_predicted", "warning", f"Never found: {_listed(rows)}.", fix)


def _no_labels(run: FinishedRun) -> RunWarning | None:
    if not run.mentions:
        return None
    types = {t: n for t, n in _missed_types(run).items() if not run.mentions.get(t)}
    if not types:
        return None
    rows = [f"{t} ({n:,} in {_and(run.splits)})" for t, n in types.items()]
    found = f"No labelled sentence shows {_listed(rows)}: never found."
    return RunWarning("no_labels", "warning", found, "Label sentences that do, or add a `--source` that has the type.")


def _missed_types(run: FinishedRun) -> dict[str, int]:
    """Types that were never predicted, with their gold mentions in all splits, the most frequent first."""
    gold, predicted = dict[str, int](), set[str]()
    for scores in run.splits.values():
        for label, counts in scores.get("by_type", {}).items():
            gold[label] = gold.get(label, 0) + counts["support"]
            predicted |= {label} if counts["predicted"] else set()
    return {t: n for t, n in sorted(gold.items(), key=lambda item: (-item[1], item[0])) if n and t not in predicted}


# -- what it began with, and what chose it -------------------------------------------------------------------


def _frozen_words(run: FinishedRun) -> RunWarning | None:
    if not run.random_words or run.setting("encoder.words.train") is not False:
        return None
    found = "Word vectors are random and frozen (encoder.words.train is false, and there is no vector file): noise."
    return RunWarning("frozen_words", "hint", found, f"{VECTORS}, or `--set encoder.words.train=true`")


def _random_words(run: FinishedRun) -> RunWarning | None:
    labelled = run.metrics.get("labelled")
    if not run.random_words or not run.mentions or run.transferred or run.unusable:  # an unusable tagger says so
        return None
    if labelled is None or labelled >= _FEW_SENTENCES or run.setting("encoder.words.train") is False:
        return None
    found = f"All that is known of words comes from {_counted(labelled, 'labelled sentence')}."
    return RunWarning(
        "random_words", "hint", found, f"Word vectors ({VECTORS}) or a pretrained encoder ({ENCODER}) help."
    )


def _large_dev(run: FinishedRun) -> RunWarning | None:
    labelled, dev = run.metrics.get("labelled"), (run.metrics.get("dev") or {}).get("sentences")
    if run.metrics.get("selection") != "best dev F1" or labelled is None or dev is None or dev <= labelled:
        return None
    found = (
        f"The dev split that chose the weights has {dev:,} labelled sentences, more than the {labelled:,} counted as "
        "labels: with those alone it would likely score lower."
    )
    fix = "`--set selection=held_out` (a fifth of the labels chooses) or `--set selection=last`"
    return RunWarning("large_dev", "hint", found, fix)


_CHECKS: tuple[Callable[[FinishedRun], RunWarning | None], ...] = (
    _unusable,
    _silent_teacher,
    _undertrained,
    _few_updates,
    _high_loss,
    _lopsided,
    _no_labels,
    _never_predicted,
    _frozen_words,
    _random_words,
    _large_dev,
    _pretrained_too_little,
)


# -- words ---------------------------------------------------------------------------------------------------


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _counted(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _or(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])}, or {parts[-1]}" if len(parts) > 1 else parts[0]


def _and(parts: Mapping[str, Any]) -> str:
    return " and ".join(parts)


def _listed(rows: Sequence[str]) -> str:
    more = len(rows) - _NAMED
    return ", ".join(rows[:_NAMED]) + (f" and {_counted(more, 'more type')}" if more > 0 else "")
