"""The two sentences at the head of a report: they follow the scores, and agree with the warnings."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from nershift.data.spans import Sentence
from nershift.evaluation.error_analysis import Analysis
from nershift.evaluation.metrics import Counts, Scores
from nershift.evaluation.run_warnings import RunWarning
from nershift.reports import html, markdown, text
from nershift.reports.model import RunReport
from nershift.reports.verdict import verdict

GOOD, BAD = (90, 100, 100), (12, 15, 100)  # correct, predicted, gold


def report(
    kinds: dict[str, dict[str, int]] | None = None,
    confusions: dict[tuple[str, str], int] | None = None,
    warnings: tuple[RunWarning, ...] = (),
    **types: tuple[int, int, int],
) -> RunReport:
    counts = {label: Counts(*row) for label, row in types.items()}
    every = Counts(*(sum(getattr(c, part) for c in counts.values()) for part in ("correct", "predicted", "support")))
    counted = {label: Counter(row) for label, row in (kinds or {}).items()}
    analysis = Analysis(counted, Counter(confusions or {}))
    return RunReport("run", scores=Scores(every, counts, 50), analysis=analysis, warnings=warnings)


def sentences(made: RunReport) -> list[str]:
    told = verdict(made)
    assert told.endswith(".")
    return told.split(". ")


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ({"place": GOOD}, "On test, place works (F1 90)"),
        ({"place": GOOD, "person": (80, 100, 100)}, "On test, all types work (F1 80 to 90)"),
        ({"place": GOOD, "org": BAD}, "On test, place works (F1 90); org fails (recall 12)"),
        ({"org": (12, 100, 20)}, "On test, org fails (precision 12)"),
        ({"a": BAD, "b": (5, 10, 100)}, "On test, b and a fail (F1 9 to 21)"),
        ({"a": (6, 10, 10)}, "On test, a is so-so (F1 60)"),
        ({f"t{i}": BAD for i in range(6)}, "On test, t0, t1, t2 and 3 more types fail (F1 21)"),
        ({"a": (1, 1, 1)}, "F1 is 100 on test, but no type has 5 entities there, too few to judge it"),
        ({"a": (0, 3, 0)}, "Nothing can be said: the 50 test sentences have no entity"),
    ],
)
def test_what_works_and_what_fails(types: dict[str, Any], told: str) -> None:
    assert sentences(report(**types))[0] == told


@pytest.mark.parametrize(
    ("kinds", "advice"),
    [
        ({"missed": 80, "type": 8}, "Label more sentences with org, of which 80 of 100 are missed: "),
        (
            {"type": 60, "both": 20, "missed": 8},
            "Label more sentences that tell org from place, for which 70 are taken",
        ),
        ({"border": 80, "missed": 8}, "Agree on where org begins and ends, which is wrong in 80 cases"),
        ({"spurious": 90, "missed": 8}, "Label more sentences in which words look like org and are not (90 were"),
    ],
)
def test_advice_follows_the_most_frequent_error(kinds: dict[str, int], advice: str) -> None:
    confusions = {("org", "place"): 70, ("org", "event"): 10, ("place", "event"): 99}
    made = report({"org": kinds}, confusions, place=GOOD, org=BAD)
    assert sentences(made)[1].startswith(advice)


def test_it_agrees_with_the_warnings() -> None:
    serious = RunWarning("few_updates", "warning", "Too few updates.", "`--set train.updates=1000`")
    failed = RunWarning("unusable", "failed", "This tagger is not usable.", "More labels.")
    hint = RunWarning("random_words", "hint", "Words are random.", "Word vectors.")
    good = report(place=GOOD)
    assert sentences(good)[1].startswith("Use it")
    assert sentences(replace(good, warnings=(hint,)))[1].startswith("Use it")
    assert sentences(replace(good, warnings=(serious, hint)))[1].startswith("Do first what the warning says")
    told = sentences(replace(report(org=(0, 0, 100)), warnings=(failed, serious)))
    assert told[0] == "This tagger is of no use as it is: F1 is 0 on test"
    assert told[1].startswith("Do first what the warnings say")


def test_without_a_test_split_there_is_none() -> None:
    assert verdict(RunReport("run")) == ""


def test_all_renderings_have_it_then_examples_then_tables() -> None:
    gold = [Sentence.of(["Ada", "saw", "Rome"], [(0, 1, "PER"), (2, 3, "LOC")])] * 6
    made = RunReport.of("run", gold, [s.with_spans(s.spans[:1]) for s in gold])
    made = replace(made, verdict=verdict(made))
    assert made.verdict.startswith("On test, PER works (F1 100); LOC fails (recall 0). Label more sentences with LOC")
    out = io.StringIO()
    Console(file=out, width=300).print(text.render(made))
    for rendered in (out.getvalue(), markdown.render(made), html.render(made)):
        told, example = rendered.index("PER works"), rendered.index("saw")
        assert told < example < rendered.index("By entity type", example)
        assert rendered.rindex("saw") < rendered.index("tokens", example)  # of the first table
    assert "`nershift next --model RUN TEXT --out FILE`" in markdown.render(made)
    assert "<code>nershift next --model RUN TEXT --out FILE</code>" in html.render(made)


def test_contents_lead_to_every_section() -> None:
    gold = [Sentence.of(["Ada", "saw", "Rome"], [(0, 1, "PER"), (2, 3, "LOC")])] * 6
    made = RunReport.of("run", gold, gold)
    page, plain = html.render(made), markdown.render(made)
    for name in ("examples", "overall", "types", "errors"):
        assert page.count(f'href="#{name}"') == page.count(f'<section id="{name}">') == 1
    assert "- [What became of each span](#what-became-of-each-span)\n" in plain
    assert "## What became of each span\n" in plain


def test_a_page_says_what_run_stands_for_where_it_says_run() -> None:
    told = "`RUN` is the folder that this report is in"
    fix = RunWarning("undertrained", "warning", "Too few updates.", "`nershift resume RUN --updates 9` goes on.")
    for made, says in ((RunReport("r", warnings=(fix,)), True), (RunReport("r", verdict="RUN is a word."), False)):
        assert (told in markdown.render(made)) is says
        assert (told.replace("`RUN`", "<code>RUN</code>") in html.render(made)) is says
