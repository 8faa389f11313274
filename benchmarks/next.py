"""Does `nershift next` reach an F1 with fewer labelled sentences than random choice? A simulation with known labels.

For each corpus and seed a small recurrent tagger is trained on a few random sentences of the train split. Then, round
by round, more sentences are chosen from the rest of it, their labels are looked up, and the tagger is trained anew on
all of them. Strategies: ``random``; ``doubt`` (the least sure sentences, diversity 0); ``next`` (as the command does).
All start from the same sentences, and random takes the same ones as a run with --shots. Scores are on test; nothing is
selected on it or on dev, training takes the same number of steps everywhere.

    python benchmarks/next.py [--device cuda] [--workers 9] [--json FILE] [--doc docs/labelling.md]
    python benchmarks/next.py --show FILE [--doc docs/labelling.md]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from common import machine
from next_table import as_markdown, put_into
from rich.console import Console

from nershift.data.corpus import Corpus, subset
from nershift.data.formats import read_corpus
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import score
from nershift.labelling.choose import DIVERSITY, choose
from nershift.methods.base import Setup
from nershift.methods.target_only import TargetOnly
from nershift.run import resolve
from nershift.tagger.tagger import Tagger
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes

CORPORA = ("mit_restaurant", "bionlp13pc", "wnut2017")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="pairs of corpus and seed at once")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--start", type=int, default=50, help="random sentences of the first tagger")
    parser.add_argument("--batch", type=int, default=50, help="sentences chosen a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument(
        "--diversity", type=float, nargs="+", default=(0.0, DIVERSITY), help="exponents tried beside random"
    )
    parser.add_argument("--steps", type=int, default=500, help="training steps of each tagger")
    parser.add_argument("--pool", type=int, default=0, help="use only so many train sentences; 0: all")
    parser.add_argument("--test", type=int, default=0, help="use only so many test sentences; 0: all")
    parser.add_argument("--vectors", default="glove.100d.txt", help="a file in NERSHIFT_VECTORS; '': none")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--doc", type=Path, help="put the table between the markers of this document")
    parser.add_argument("--show", type=Path, help="show a result instead of making one")
    options = parser.parse_args()
    if options.show:
        result = json.loads(options.show.read_text(encoding="utf-8"))
    else:
        result = simulate(options)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    Console().print(as_markdown(result), markup=False, highlight=False, soft_wrap=True)
    if options.doc:
        put_into(options.doc, as_markdown(result))


def simulate(options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    jobs = [(corpus, seed, options) for seed in range(1, options.seeds + 1) for corpus in options.corpora]
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
            chains = list(pool.map(chain, *zip(*jobs, strict=True)))
    else:
        chains = [chain(*job) for job in jobs]
    names = ("start", "batch", "rounds", "steps", "pool", "test", "vectors")
    return {
        "machine": machine(options.device),
        "seconds": round(time.perf_counter() - began, 1),
        "settings": {name: getattr(options, name) for name in names},
        "chains": chains,
    }


def chain(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """All rounds of all strategies, for one corpus and seed."""
    torch.set_num_threads(1)
    corpus = read_corpus(name)
    pool = subset(corpus.train, shots=options.pool or None, seed=seed)  # in drawing order
    test = corpus.test[: options.test or None]
    first = pool[: options.start]
    tagger = fit(corpus, first, seed, options)
    begun = measured(tagger, first, test)
    rounds = {}
    for diversity in (None, *options.diversity):
        labelled, now, rows = list(first), tagger, [begun]
        for _ in range(options.rounds):
            labelled += pick(diversity, now, pool, labelled, options.batch)
            now = fit(corpus, labelled, seed, options)
            rows.append(measured(now, labelled, test))
        rounds[strategy(diversity)] = rows
    return {"corpus": name, "seed": seed, "pool": len(pool), "test": len(test), "rounds": rounds}


def strategy(diversity: float | None) -> str:
    names = {None: "random", 0.0: "doubt", DIVERSITY: "next"}
    return names.get(diversity, f"diversity {diversity}")


def pick(
    diversity: float | None,
    tagger: Tagger,
    pool: Sequence[Sentence],
    labelled: Sequence[Sentence],
    count: int,
) -> list[Sentence]:
    """So many more sentences, with their labels; without a diversity at random, the next in drawing order."""
    if diversity is None:
        return list(pool[len(labelled) : len(labelled) + count])
    made = choose(tagger, pool, count, labelled=labelled, diversity=diversity)
    return [pool[c.position] for c in made.chosen]


def fit(corpus: Corpus, labelled: Sequence[Sentence], seed: int, options: argparse.Namespace) -> Tagger:
    """A new tagger; as for an annotator, the types of the corpus are known from the start."""
    settings = {
        "device": options.device,
        "encoder": {"words": {"vectors": options.vectors}},
        "train": {"epochs": options.steps, "max_steps": options.steps, "batch_size": 16, "lr": 2e-3},
    }
    target = Corpus(corpus.name, {"train": tuple(labelled)})
    task = TargetOnly(Setup(resolve("target_only", settings, seed), target=target, types=corpus.types))
    stage = task.train(None)
    with tempfile.TemporaryDirectory() as folder, Processes(options.device) as processes:
        stage.model.to(processes.device)
        with TrainLogger(Path(folder), quiet=True) as logger:
            Loop(stage, Path(folder) / "state", processes, logger).run()
    return Tagger(stage.model)


def measured(tagger: Tagger, labelled: Sequence[Sentence], test: Sequence[Sentence]) -> dict[str, float]:
    found = tagger.model.predict(tagger.key, test)
    return {
        "sentences": len(labelled),
        "tokens": sum(map(len, labelled)),
        "entities": sum(len(s.spans) for s in labelled),
        "f1": round(score(test, found).f1, 5),
    }


if __name__ == "__main__":
    main()
