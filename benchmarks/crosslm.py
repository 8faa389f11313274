"""What a step of CrossLM costs, and that memory does not grow with the raw text.

A step has four tasks: NER and language modelling of two domains. It is compared with four plain steps (the same
batches, heads, optimiser and clipping, an ordinary BiLSTM). "Like the published epoch" has the batches of the
authors' unsupervised runs (10 labelled sentences, 260 raw ones of each domain, 1,499 steps an epoch); their code
takes about 3,000 s an epoch by a log of its users, on another machine. On the CPU there is a last row, which is memory
(MiB, not ms): the peak of a process that counts a text's words and draws batches from it, at a tenth of the text and
at all of it.

    python benchmarks/crosslm.py [--device cuda] [--json FILE]
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from common import Row, report, time_rivals
from steps import Steps
from torch import Tensor, nn

from nershift.config import build, merge
from nershift.data.builtin import builtin_corpus
from nershift.data.raw import RawText
from nershift.methods.base import Setup
from nershift.methods.crosslm.generated import LSTMGenerator
from nershift.methods.crosslm.method import CrossLM, CrossLMOptions
from nershift.methods.crosslm.stage import CrossLMStage
from nershift.model import Batch, TaggingModel
from nershift.run import resolve
from nershift.text.counts import OutputWords
from nershift.training.raw_sampler import RawBatchSampler

PUBLISHED_MS = 3_000_000 / 1499


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=12.0, help="time for the first row; the second has half")
    parser.add_argument("--words", type=int, default=20_000, help="further words of word table and softmax")
    parser.add_argument("--lines", type=int, default=1_000_000, help="sentences of the larger raw text")
    options = parser.parse_args()
    rows = [step_cost(options), epoch(options)]
    if options.device == "cpu":  # host memory is the same whatever trains
        rows += memory(options)
    report("CrossLM", rows, "compared with", options.device, options.json)


def step_cost(options: argparse.Namespace) -> Row:
    ours, plain = Steps(make_stage(options), cycle=20), plain_steps(make_stage(options))
    rivals = {"plain": plain.step, "ours": ours.step}
    times = time_rivals(rivals, options.device, options.seconds, warm_up=2)
    extra: dict[str, float | str] = {"cost": times["ours"] / times["plain"], "limit": 1.3}
    return Row("step / 4 plain", times["plain"], times["ours"], extra=extra)


def epoch(options: argparse.Namespace) -> Row:
    sizes = {"train": {"batch_size": 10}, "options": {"lm_batch_size": 260}}
    ours = Steps(make_stage(options, sizes), cycle=20).step
    times = time_rivals({"ours": ours}, options.device, options.seconds / 2, warm_up=2)
    extra: dict[str, float | str] = {"epoch, s": 1.499 * times["ours"]}
    return Row("published sizes", PUBLISHED_MS, times["ours"], extra=extra)


class WideCrossLM(CrossLM):
    """CrossLM with word tables of the size that real corpora have."""

    words = 0

    def _vocabulary(self, texts: Any) -> OutputWords:
        found = super()._vocabulary(texts)
        assert found is not None
        more = [f"further{'x' * (i % 7)}{chr(97 + i % 26)}{i}" for i in range(self.words)]
        rare = [1e-6] * len(more)
        return OutputWords([*found.words, *more], torch.tensor([*found.frequencies, *rare]).numpy())


def make_stage(options: argparse.Namespace, settings: dict[str, Any] | None = None) -> CrossLMStage:
    config = resolve("crosslm", merge({"device": options.device}, settings or {}))
    source, target = builtin_corpus("news"), builtin_corpus("market")
    setup = Setup(config, build(CrossLMOptions, config.options), target, target.types, (source,))
    method = WideCrossLM(setup)
    method.words = options.words
    stage = method.train(None)
    assert isinstance(stage, CrossLMStage)
    stage.model.to(options.device).train()
    return stage


def plain_steps(stage: CrossLMStage) -> Steps:
    """An ordinary BiLSTM on the same batches and heads, updated after every task."""
    stage.model.generator = Ordinary(stage.model)

    def losses(batches: Mapping[str, Batch]) -> Iterator[Tensor]:
        return (stage.losses([task], batches, [torch.empty(0)])[task.sampler] for task in stage.tasks)

    return Steps(stage, losses, cycle=20)


class Ordinary(LSTMGenerator):
    """In the place of a generator: the encoder's own LSTM, trained."""

    def __init__(self, model: TaggingModel) -> None:
        nn.Module.__init__(self)
        self.encoder = [model.encoder]  # in a list: not a part of this module
        model.encoder.get_submodule("recurrent").requires_grad_(True)

    def run(self, x: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return self.encoder[0].contextualise(x, lengths)


def memory(options: argparse.Namespace) -> list[Row]:
    context = multiprocessing.get_context("spawn")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for lines in (options.lines // 10, options.lines):
            path = Path(folder, f"{lines}.raw.txt")
            write_text(path, lines)
            queue = context.Queue()
            process = context.Process(target=_read, args=(path, queue))
            process.start()
            found[lines] = queue.get()
            process.join()
            path.unlink()
    (few, small), (many, large) = found.items()
    extra: dict[str, float | str] = {"sentences": f"{few:,} → {many:,}"}
    return [Row("raw text x 10, MiB", small, large, extra=extra)]


def write_text(path: Path, lines: int) -> None:
    """Frequent and rare words, and in each sentence one that never comes again; in letters, since digits are folded."""
    rng, letters = random.Random(1), str.maketrans("0123456789", "ghijklmnop")
    with path.open("w") as file:
        for i in range(lines):
            words = [f"w{int(rng.paretovariate(0.7)) % 10**7:x}" for _ in range(12)]
            file.write(" ".join([*words, f"once{i:x}"]).translate(letters) + "\n")


def peak_mib() -> float:
    """Of this process alone: getrusage's figure would begin at the size of the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, "the peak is read from /proc, which Linux has"
    return int(found.group(1)) / 1024


def _read(path: Path, queue: Any) -> None:
    text = RawText(path)
    words = OutputWords.of({"text": text}, size=20_000)
    stage = make_stage(argparse.Namespace(device="cpu", words=0))
    sampler = RawBatchSampler(stage.model, "text", text, 30, 1, words)
    for k in range(300):
        sampler.batch(k * (sampler.per_epoch // 300))
    queue.put(peak_mib())


if __name__ == "__main__":
    main()
