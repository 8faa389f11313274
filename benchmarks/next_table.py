"""The simulation of ``next.py`` as a table: F1 of each strategy, and what it needs to match random choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from nershift.evaluation.stats import SeedSummary, aggregate, seed_difference

MARKS = ("<!-- simulation: begin -->", "<!-- simulation: end -->")

Chains = Sequence[dict[str, Any]]


def as_markdown(result: dict[str, Any]) -> str:
    """Two tables and what they say, from the JSON of the simulation alone."""
    chains = result["chains"]
    corpora = list(dict.fromkeys(c["corpus"] for c in chains))
    strategies = list(chains[0]["rounds"])
    settings, seeds = result["settings"], len({c["seed"] for c in chains})
    curves = [f"| corpus | sentences | {' | '.join(strategies)} |", "|:--|--:|" + "--:|" * len(strategies)]
    needs = [
        "| corpus | random ends at | strategy | sentences | of random's | tokens | of random's | F1 at the end |",
        "|:--|--:|:--|--:|--:|--:|--:|--:|",
    ]
    for corpus in corpora:
        mine = [c for c in chains if c["corpus"] == corpus]
        for i, row in enumerate(mine[0]["rounds"]["random"]):
            cells = [_cell(_f1(mine, s, i)) for s in strategies]
            curves.append(f"| {corpus} | {row['sentences']} | {' | '.join(cells)} |")
        needs += [_need(corpus, mine, s) for s in strategies if s != "random"]
    told = ", ".join(f"{k} {v}" for k, v in result["machine"].items())
    many = f"{seeds} seeds" if seeds > 1 else "one seed"
    head = (
        f"Mean F1 ± standard deviation over {many}; {settings['start']} random sentences first, then "
        f"{settings['batch']} a round, {settings['steps']} training steps a tagger ({told}; {result['seconds']} s)."
    )
    tail = (
        "What each strategy needs to pass, for good, the F1 that random choice ends at, between rounds by straight "
        "lines through the means. The last column is F1 at the end above random, paired over seeds, with 95 % interval."
    )
    told = " ".join(_verdict(chains, corpora, s) for s in strategies if s != "random")
    return "\n\n".join([told, head, "\n".join(curves), tail, "\n".join(needs)])


def put_into(document: Path, text: str) -> None:
    """Replace what stands between the marks."""
    before, _, rest = document.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    document.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def needed(xs: Sequence[float], ys: Sequence[float], goal: float) -> float | None:
    """Where straight lines through the points pass a goal for good; None if they end below it."""
    at = len(ys)
    while at and ys[at - 1] >= goal:
        at -= 1
    if at == len(ys):
        return None
    if at == 0:
        return xs[0]
    return xs[at - 1] + (xs[at] - xs[at - 1]) * (goal - ys[at - 1]) / (ys[at] - ys[at - 1])


def _verdict(chains: Chains, corpora: Sequence[str], strategy: str) -> str:
    """What the tables say of a strategy, in a sentence that their numbers decide."""
    parts = []
    for corpus in corpora:
        mine = [c for c in chains if c["corpus"] == corpus]
        found, theirs = _to_match_random(mine, strategy, "sentences")
        parts.append((corpus, None if found is None else found / theirs))
    fewer = [f"{corpus} ({share:.2f} of them)" for corpus, share in parts if share is not None and share < 1]
    others = [corpus for corpus, share in parts if share is None or share >= 1]
    text = f"`{strategy}` reaches the F1 of random choice with fewer sentences on {', '.join(fewer) or 'no corpus'}"
    text += f", and does not on {', '.join(others)}." if others else "."
    gains = {corpus: _gain([c for c in chains if c["corpus"] == corpus], strategy) for corpus in corpora}
    beyond = [corpus for corpus, gain in gains.items() if gain.low is not None and gain.low > 0]
    return f"{text} At the end it is ahead by more than the seeds' noise on {', '.join(beyond) or 'none of them'}."


def _gain(chains: Chains, strategy: str) -> SeedSummary:
    return seed_difference(_f1(chains, "random", -1), _f1(chains, strategy, -1), matched=True)


def _to_match_random(chains: Chains, strategy: str, unit: str) -> tuple[float | None, float]:
    """How much a strategy needs to pass the F1 that random ends at, if it does, and how much random needs.

    Random is asked by the same rule: where it levelled off before its end, the rest of its sentences is no one's gain.
    """
    goal = fmean(_f1(chains, "random", -1))
    needs = []
    for name in (strategy, "random"):
        xs, ys = ([fmean(column) for column in _columns(chains, name, key)] for key in (unit, "f1"))
        needs.append(needed(xs, ys, goal))
    assert needs[1] is not None, "random passes what it ends at"
    return needs[0], needs[1]


def _need(corpus: str, chains: Chains, strategy: str) -> str:
    cells = []
    for unit in ("sentences", "tokens"):
        found, theirs = _to_match_random(chains, strategy, unit)
        if found is None:
            last = fmean(_columns(chains, strategy, unit)[-1])
            cells += [f"more than {last:.0f}", f"over {last / theirs:.2f}"]
        else:
            cells += [f"{found:.0f}", f"{found / theirs:.2f}"]
    goal = fmean(_f1(chains, "random", -1))
    gain = _gain(chains, strategy)
    told = f"{100 * gain.mean:+.2f}"
    if gain.low is not None and gain.high is not None:
        told += f" ({100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
    return f"| {corpus} | {100 * goal:.2f} | {strategy} | {' | '.join(cells)} | {told} |"


def _columns(chains: Chains, strategy: str, key: str) -> list[list[float]]:
    """Values of all seeds, round by round."""
    rows = [[row[key] for row in c["rounds"][strategy]] for c in chains]
    return [list(column) for column in zip(*rows, strict=True)]


def _f1(chains: Chains, strategy: str, number: int) -> list[float]:
    return _columns(chains, strategy, "f1")[number]


def _cell(values: Sequence[float]) -> str:
    found = aggregate(values)
    return f"{100 * found.mean:.2f}" + (f" ± {100 * found.sd:.2f}" if found.sd is not None else "")
