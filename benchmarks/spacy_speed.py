"""Speed and F1 of our CNN-BiGRU-CRF beside a blank spaCy NER pipeline, in one run on one machine.

    python benchmarks/spacy_speed.py --data conll2003_en [--vectors FILE] [--seconds 120] [--json FILE]

Both get the same tokens, the same number of threads and the same wall-clock time of training, and both keep
their last weights: no selection on dev. They take turns, in training by slices of a few seconds and in
prediction by passes over the test split, so that a busy machine slows both; the load is in the output, and
numbers from a loaded machine are not to be trusted all the same. spaCy runs its default config (HashEmbedCNN,
transition parser, batches of 100 to 1000 words) and ours its own defaults. Blank spaCy has no word vectors:
with --vectors the F1 is no longer like for like.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SLICE = 5.0  # seconds of training before the other has its turn
PASSES = 5  # over the test split


class TimeUp(Exception):
    """The training time is spent."""


class Spacy:
    """A blank English pipeline with the default entity recogniser."""

    def __init__(self, corpus: Any, seed: int) -> None:
        import spacy
        from spacy.tokens import Doc
        from spacy.training import Example
        from spacy.util import fix_random_seed
        from thinc.api import compounding

        from nershift.data.labels import spans_to_tags

        fix_random_seed(seed)
        self.test, self.words, self.spent, self.epochs = corpus.test, 0, 0.0, 0
        self.nlp = spacy.blank("en")
        self.nlp.add_pipe("ner")
        self.doc: Callable[[Any], Any] = lambda s: Doc(self.nlp.vocab, words=list(s.tokens))
        self.examples = [
            Example.from_dict(self.doc(s), {"entities": spans_to_tags(s.spans, len(s), "BILOU")}) for s in corpus.train
        ]
        self.optimizer = self.nlp.initialize(lambda: self.examples)
        schedule: Any = compounding(100, 1000, 1.001)  # a generator or, in newer versions, a function of the step
        self.sizes: Any = (schedule(n) for n in itertools.count()) if callable(schedule) else schedule
        self.order = random.Random(seed)
        self.batches = self._batches()

    def _batches(self) -> Iterator[Any]:
        from spacy.training.batchers import minibatch_by_words

        while True:
            self.epochs += 1
            self.order.shuffle(self.examples)
            yield from minibatch_by_words(self.examples, self.sizes, tolerance=0.2, discard_oversize=False)

    def train(self, seconds: float) -> None:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            batch = next(self.batches)
            self.nlp.update(batch, sgd=self.optimizer, drop=0.1)
            self.words += sum(len(example) for example in batch)
        self.spent += time.perf_counter() - began

    def predict(self) -> list[Any]:
        from nershift.data.labels import tags_to_spans

        docs = self.nlp.pipe(map(self.doc, self.test), batch_size=128)
        tags = [[f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc] for doc in docs]
        return [s.with_spans(tags_to_spans(row)) for s, row in zip(self.test, tags, strict=True)]


class Ours:
    """The training loop of a run, paused whenever its slice is over."""

    def __init__(self, corpus: Any, seed: int, vectors: str) -> None:
        from nershift.methods.base import Setup
        from nershift.methods.target_only import TargetOnly
        from nershift.run import resolve

        settings = {
            "device": "cpu",
            "encoder": {"words": {"vectors": vectors}},
            "train": {"epochs": 10_000, "checkpoint_seconds": 1e9},
        }
        self.config = resolve("target_only", settings, seed)
        self.task = TargetOnly(Setup(self.config, target=corpus, types=corpus.types))
        self.model = self.task.prepare_target(None)
        self.corpus, self.words, self.spent, self.epochs = corpus, 0, 0.0, 0.0

    def train(self, seconds: float, pause: Callable[[float], None]) -> None:
        """Train for so long, calling ``pause(slice)`` between slices; what it takes does not count."""
        from nershift.methods.base import TARGET
        from nershift.model import Batch
        from nershift.training.logger import TrainLogger
        from nershift.training.loop import Loop
        from nershift.training.processes import Processes
        from nershift.training.stage import TrainingStage

        mine = self

        class Timed(TrainingStage):
            began = 0.0

            def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
                self.began = self.began or time.perf_counter()
                passed = time.perf_counter() - self.began
                if passed >= min(SLICE, seconds - mine.spent):
                    mine.spent += passed
                    pause(passed)
                    if mine.spent >= seconds:
                        raise TimeUp
                    self.began = time.perf_counter()
                batches = super().draw(step, rank, world)
                mine.words += sum(len(s) for s in batches[TARGET].sentences)
                mine.epochs = step / self.steps_per_epoch
                return batches

        config = self.config.train
        sampler = self.task.sampler(self.model, TARGET, self.corpus.train, config)
        stage = Timed("train", self.model, config, {TARGET: sampler}, self.config.seed)
        with tempfile.TemporaryDirectory() as name, Processes("cpu") as processes, suppress(TimeUp):
            folder = Path(name)
            with TrainLogger(folder, quiet=True) as logger:
                Loop(stage, folder / "state", processes, logger).run()

    def predict(self, confidence: bool = False) -> list[Any]:
        return self.model.predict("target", self.corpus.test, confidence=confidence)


def time_in_turns(rivals: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds of each over a few passes."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(PASSES):
        for name, run in rivals.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


def compare(corpus: Any, seconds: float, seed: int, vectors: str) -> dict[str, Any]:
    from nershift.evaluation.metrics import score

    spacy, ours = Spacy(corpus, seed), Ours(corpus, seed, vectors)
    ours.train(seconds, pause=spacy.train)
    times = time_in_turns(
        {"spacy": spacy.predict, "ours": ours.predict, "ours, confidences": lambda: ours.predict(True)}
    )
    words = sum(len(s) for s in corpus.test)
    predicted = {name: words / taken for name, taken in times.items()}
    rows = {
        name: {
            "train words/s": rival.words / rival.spent,
            "predict words/s": predicted[name],
            "test F1": score(corpus.test, rival.predict()).f1,
            "epochs": rival.epochs,
            "seconds": rival.spent,
        }
        for name, rival in (("spacy", spacy), ("ours", ours))
    }
    rows["ours"]["predict words/s with confidences"] = predicted["ours, confidences"]
    ratios = {key: rows["ours"][key] / rows["spacy"][key] for key in ("train words/s", "predict words/s")}
    ratios["predict words/s with confidences"] = predicted["ours, confidences"] / predicted["spacy"]
    return rows | {"ours / spacy": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="conll2003_en", help="a corpus with train and test, or a catalog name")
    parser.add_argument("--vectors", default="", help="a text file of word vectors, for ours")
    parser.add_argument("--seconds", type=float, default=120.0, help="training time of each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(given.threads)

    import torch

    from nershift.data.formats import read_corpus

    torch.set_num_threads(given.threads)
    before = os.getloadavg()[0]
    results = compare(read_corpus(given.data), given.seconds, given.seed, given.vectors)
    results |= {"threads": given.threads, "cores": os.cpu_count(), "vectors": bool(given.vectors)}
    results["load"] = {"one minute before": before, "last minute": os.getloadavg()[0]}
    text = json.dumps(results, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
