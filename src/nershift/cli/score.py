"""`evaluate` and `compare`: how good a tagger is, and whether one is better than another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nershift.cli.options import Nested, Verify
from nershift.console import make_console, say, to_json
from nershift.errors import ConfigError


def evaluate(
    gold: Annotated[Path | None, typer.Option("--gold", help="Corpus file with the right entities.")] = None,
    pred: Annotated[Path | None, typer.Option("--pred", help="Corpus file with predicted entities.")] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", help="Folder of a finished run to predict with; given several times, the runs vote."),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Corpus file to predict on and score.")] = None,
    train: Annotated[
        Path | None, typer.Option("--train", help="Training file, to tell mentions seen in training from unseen ones.")
    ] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the predictions (JSONL) here.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a self-contained page here.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write a Markdown report here.")] = None,
    nested: Nested = False,
    verify: Verify = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score predictions: either --gold with --pred, or --model with --data.

    With --json the output is one object, the report: title, scores (precision, recall, f1, macro_f1, by_type
    and more, as fractions of 1), f1_interval (low, high), token_scores, analysis (kinds, confusions …).
    """
    from nershift.data.formats import read_sentences
    from nershift.evaluation.unknown_types import type_warnings
    from nershift.reports.model import RunReport
    from nershift.tagger.ensemble import Ensemble

    read = partial(read_sentences, labelled=True, nested=nested or None)
    if gold and pred and not (model or data):
        title = f"{pred.name} against {gold.name}"
        pairs = read(gold), read(pred)
        known, whose = {span.label for sentence in pairs[1] for span in sentence.spans}, pred.name
    elif model and data and not (gold or pred):
        tagger, right = Ensemble.load(model, verify=verify), read(data)
        pairs, known = (right, tagger.tag_sentences(right)), set(tagger.types)
        whose = ", ".join(folder.resolve().name for folder in model)
        title = f"{whose} on {data.name}"
    else:
        given = [f"--{k}" for k, v in {"gold": gold, "pred": pred, "model": model, "data": data}.items() if v]
        raise ConfigError(
            f"found {' '.join(given) or 'none of them'}",
            place="nershift evaluate",
            expected="--gold FILE --pred FILE, or --model DIR --data FILE",
            fix="give one of the two pairs",
        )
    warnings = tuple(type_warnings(pairs[0], known, whose))
    report = RunReport.of(title, *pairs, train=read(train) if train else (), warnings=warnings)
    if save:
        from nershift.evaluation.predictions import write_predictions

        write_predictions(save, *pairs)
    _write(report, html, markdown)
    if as_json:
        _print_json(report.to_dict())
    else:
        from nershift.reports.text import render

        make_console().print(render(report))


def compare(
    run_a: Annotated[Path, typer.Argument(help="Run folder or predictions.jsonl of the first system.")],
    run_b: Annotated[Path, typer.Argument(help="The same of the second system.")],
    permutations: Annotated[int, typer.Option("--permutations", min=100, help="Random swaps.")] = 10_000,
    samples: Annotated[int, typer.Option("--samples", min=100, help="Bootstrap samples.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of swaps and samples.")] = 0,
    html: Annotated[Path | None, typer.Option("--html", help="Write a self-contained page here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Is one run better than another on the same test sentences?

    With --json the output is one object: names [a, b], verdict, and a, b, difference (B minus A), each with
    value, low, high and level as fractions of 1; p_randomisation, p_bootstrap, sentences, significant.
    """
    from nershift.comparison import compare as compare_runs
    from nershift.reports.model import ComparisonRow, RunReport

    test = compare_runs(run_a, run_b, samples=samples, permutations=permutations, seed=seed)
    names = _names(run_a, run_b)
    rows = (
        ComparisonRow.of(names[0], test.a),
        ComparisonRow.of(names[1], test.b),
        ComparisonRow.of("difference", test.difference, f"{names[1]} minus {names[0]}"),
    )
    tests = (
        f"Two-sided p-values on {test.sentences} sentences: approximate randomisation "
        f"{test.p_randomisation:.4f}, paired bootstrap {test.p_bootstrap:.4f}."
    )
    title, verdict = f"{names[0]} against {names[1]}", test.verdict(*names)
    if html:
        # The difference has another scale than the scores, so the page says it in words.
        apart = test.difference
        span = f"Difference {100 * apart.value:.2f}, interval {100 * apart.low:.2f} – {100 * apart.high:.2f}."
        _write(RunReport(title, verdict=verdict, notes=(span, tests), comparisons=rows[:2]), html, None)
    if as_json:
        _print_json({"names": list(names), "verdict": verdict, **test.to_dict()})
    else:
        from nershift.reports.text import render

        make_console().print(render(RunReport(title, verdict=verdict, notes=(tests,), comparisons=rows)))


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to the command line."""
    app.command("evaluate")(evaluate)
    app.command("compare")(compare)


def _names(a: Path, b: Path) -> tuple[str, str]:
    """Short names that differ: folder names of runs, or else the paths themselves."""
    short = tuple(p.resolve().name if p.is_dir() else p.stem for p in (a, b))
    return (short[0], short[1]) if short[0] != short[1] else (str(a), str(b))


def _write(report: Any, html: Path | None, markdown: Path | None) -> None:
    if html:
        from nershift.reports.html import save

        save(report, html)
    if markdown:
        from nershift.reports.markdown import render
        from nershift.storage import write_text

        write_text(markdown, render(report))


def _print_json(value: dict[str, Any]) -> None:
    say(to_json(value, indent=1))
