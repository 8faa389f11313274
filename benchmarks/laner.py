"""Label-aware decoding: all prefixes at once against position by position, in the same run, with equal results.

    python benchmarks/laner.py [--device cuda] [--json FILE] [--seconds 5] [--batch 64] [--length 50]
    python benchmarks/laner.py --device cuda --tune      # only: the GPU kernel by its sizes, and a recorded pass
    python benchmarks/laner.py --encoder NAME            # below the heads, in place of a random BERT-base
    python benchmarks/laner.py --model RUN [CORPUS ...]  # only: is every test sentence decoded as step by step?

The baseline runs the label BiLSTM over every prefix in turn, all sentences of the batch together: what the equations
say, and what public code does. Weights are trained for a moment on made-up states, so that decoding has something
to decide. For two CPU cores set ``OMP_NUM_THREADS=2``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from common import Row, report, time_rivals
from torch import Tensor, nn

from nershift.data.labels import LabelSpace
from nershift.heads.softmax import SoftmaxHead
from nershift.methods.laner.fast.check import TIE
from nershift.methods.laner.fast.replayed import Replayed
from nershift.methods.laner.fast.search import fixed_point
from nershift.methods.laner.head import LabelAwareHead

SPACE = LabelSpace.of([f"type{i:02}" for i in range(14)], "BIO")  # as many types as CrossNER's ai
CROSSNER = [f"crossner_{d}" for d in ("politics", "science", "music", "literature", "ai")]


class PositionByPosition:
    """The same head with its own weights, one prefix after the other."""

    def __init__(self, head: LabelAwareHead) -> None:
        self.head, size = head, head.settings.label_size
        self.both = nn.LSTM(size, size, batch_first=True, bidirectional=True).to(head.labels.weight.device)
        # A copy: weights that two modules share lie badly for one of them on a GPU.
        self.both.load_state_dict(
            {
                key + end: weight
                for name, end in (("ahead", ""), ("back", "_reverse"))
                for key, weight in getattr(head.prefixes, name).state_dict().items()
            }
        )

    def scores(self, states: Tensor, mask: Tensor, before: Tensor) -> Tensor:
        """Log probabilities ``[B, C]`` of the tag at position ``i`` given ``before [B, i]``."""
        head, i = self.head, before.shape[1]
        start = before.new_full((len(before), 1), len(head.space))
        e = self.both(head.labels(torch.cat([start, before], 1)))[0]  # [B, i + 1, 2D]
        weights = (states @ head.query(e[:, -1])[..., None])[..., 0].masked_fill(~mask, float("-inf"))
        background = (weights.softmax(1)[:, None] @ states)[:, 0]
        read = head.reader(torch.cat([states[:, i], background], -1))
        context = ((e @ read[..., None])[..., 0].softmax(1)[:, None] @ e)[:, 0]
        return head.project(torch.cat([states[:, i], background, context], -1)).log_softmax(-1)

    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        found = [self.scores(states, mask, tags[:, :i]).gather(1, tags[:, i : i + 1]) for i in range(tags.shape[1])]
        return -torch.cat(found, 1).masked_fill(~mask, 0.0).sum(1)

    @torch.no_grad()
    def greedy(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Tags ``[B, L]``, and how far the best tag was ahead of the next at each position."""
        tags = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
        ahead = torch.full(mask.shape, float("inf"), device=mask.device)
        for i in range(mask.shape[1]):
            scores = self.scores(states, mask, tags[:, :i])[:, None]
            best = self.head.legal(scores, tags, mask, i)[:, 0].topk(2, dim=1)
            tags[:, i], ahead[:, i] = best.indices[:, 0], best.values[:, 0] - best.values[:, 1]
        return tags.masked_fill(~mask, 0), ahead.masked_fill(~mask, float("inf"))


def made_up(batch: int, length: int, size: int, device: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """States that tell most tags and leave some in doubt, mask, tags."""
    draw = torch.Generator().manual_seed(seed)
    tags = torch.zeros(batch, length, dtype=torch.long)
    for row in tags:
        i = 0
        while i < length:
            if torch.rand((), generator=draw) < 0.15:
                kind, words = (int(torch.randint(n, (), generator=draw)) for n in (14, 4))
                row[i] = 1 + 2 * kind
                row[i + 1 : i + 1 + words] = 2 + 2 * kind
                i += words
            i += 1
    points = torch.randn(len(SPACE), size, generator=torch.Generator().manual_seed(0))
    states = 0.14 * points[tags] + torch.randn(batch, length, size, generator=draw)
    return states.to(device), torch.ones(batch, length, dtype=torch.bool, device=device), tags.to(device)


def trained(size: int, device: str, steps: int = 40) -> LabelAwareHead:
    torch.manual_seed(1)
    head = LabelAwareHead(SPACE, size).to(device)
    optimizer = torch.optim.Adam(head.parameters(), 3e-3)
    for step in range(steps):
        states, mask, tags = made_up(16, 25, size, device, 100 + step)
        optimizer.zero_grad()
        head.loss(states, mask, tags).mean().backward()
        optimizer.step()
    return head.eval()


def speed(options: argparse.Namespace) -> list[Row]:
    device, size = options.device, options.size
    head = trained(size, device)
    head.prefixes.train()  # cuDNN gives gradients in training mode alone
    plain = PositionByPosition(head)
    states, mask, tags = made_up(options.batch, options.length, size, device, 7)
    states.requires_grad_()

    shared = [states, head.labels.weight, head.project.weight]
    lstms = [plain.both, head.prefixes]

    def train_plain() -> None:
        plain.loss(states, mask, tags).mean().backward()

    def train_ours() -> None:
        head.loss(states, mask, tags).mean().backward()

    def gradients(run: Callable[[], None], lstm: nn.Module) -> list[Tensor]:
        leaves = [*shared, *lstm.parameters()]  # of both: four tensors forward, then four backward
        for leaf in leaves:
            leaf.grad = None
        run()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    pairs = zip(gradients(train_plain, lstms[0]), gradients(train_ours, lstms[1]), strict=True)
    difference = max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs)
    step = time_rivals({"baseline": train_plain, "ours": train_ours}, device, options.seconds, warm_up=1)
    rows = [Row("training step", step["baseline"], step["ours"], difference)]
    clean = states.detach()
    expected, _ = plain.greedy(clean, mask)
    found = fixed_point(head, clean, mask)
    rivals = {"baseline": lambda: plain.greedy(clean, mask), "ours": lambda: head.decode(clean, mask)}
    decode = time_rivals(rivals, device, options.seconds, warm_up=1)
    extra: dict[str, float | str] = {
        "mean passes": float(found.passes.float().mean()),
        "most passes": float(found.passes.max()),
        "mean rough passes": float(found.rounds.float().mean()),
    }
    if clean.is_cuda:
        extra["passes, recorded"] = float(_recorded(head, clean, mask).passes)
    differing = float((expected != found.tags).sum())
    rows.append(Row("greedy decoding", decode["baseline"], decode["ours"], differing, extra))
    return rows


@torch.no_grad()
def _recorded(head: LabelAwareHead, states: Tensor, mask: Tensor) -> Replayed:
    """Decoding as :meth:`LabelAwareHead.decode` has it on a GPU for a shape met before, after one call."""
    take = Replayed(head, states, mask)
    take.record()
    take(states, mask)
    return take


def tune(options: argparse.Namespace) -> None:
    """Print how long the GPU kernel takes by the size of its blocks, and the recorded parts as they are."""
    _tune(options, trained(options.size, options.device))


@torch.no_grad()
def _tune(options: argparse.Namespace, head: LabelAwareHead) -> None:
    from nershift.methods.laner.fast import on_gpu

    states, mask, tags = made_up(options.batch, options.length, options.size, options.device, 7)
    ahead = head.prefixes.forward_states(head.labels.weight, tags)
    gates, weight = head.prefixes._recurrence(head.labels.weight)
    query, scores = torch.randn_like(ahead), torch.randn(*mask.shape, options.length, device=options.device)
    given = (gates, weight, tags, ahead, query, scores, mask, 0)
    take = _recorded(head, states, mask)
    cases: dict[str, Callable[[], object]] = {
        f"kernel, {4 * quads} sentences a block": partial(on_gpu.context, *given, quads=quads) for quads in (1, 2)
    }
    cases |= {
        "forward states": lambda: head.prefixes.forward_states(head.labels.weight, tags),
        "recorded begin": take.begin_again,
        "recorded pass": take.settle_again,
        "recorded pass of few": take.settle_few_again,
        f"recorded decoding, {take.passes} passes": lambda: take(states, mask),
    }
    for name, call in cases.items():
        print(f"{name}: {time_rivals({name: call}, options.device, options.seconds, warm_up=3)[name]:.3f} ms")


def against_softmax(options: argparse.Namespace) -> Row:
    """Encoder and head together: a softmax head is the baseline, so that a ratio of 0.33 is three times its time."""
    encode, size, name = _encoder(options)
    head = trained(size, options.device)
    plain = SoftmaxHead(SPACE, size).to(options.device)
    states, mask, _ = made_up(options.batch, options.length, size, options.device, 8)

    @torch.no_grad()
    def run(head: SoftmaxHead | LabelAwareHead) -> object:
        encode()  # for its time; the states decoded are those that the heads can read
        return head.decode(states, mask)

    times = time_rivals(
        {"baseline": lambda: run(plain), "ours": lambda: run(head)},
        options.device,
        options.seconds,
        warm_up=1,
    )
    return Row(f"encoder + decoding against softmax ({name})", times["baseline"], times["ours"])


def _encoder(options: argparse.Namespace) -> tuple[Callable[[], object], int, str]:
    """A call that runs an encoder over a batch, the size of its states, its name."""
    if options.encoder:
        from nershift.config import EncoderConfig, build
        from nershift.encoders.base import make_encoder

        settings = {"kind": "transformer", "transformer": {"name": options.encoder}, "chars": {"use": False}}
        encoder = make_encoder(build(EncoderConfig, settings), []).to(options.device).eval()
        words = [f"word{i % 97}" if i % 3 else "the" for i in range(options.length)]
        batch = encoder.collate([encoder.prepare(words)] * options.batch)
        inputs = {k: v.to(options.device) for k, v in batch.items()}
        return lambda: encoder(**inputs), encoder.size, options.encoder
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig(), add_pooling_layer=False).to(options.device).eval()
    pieces = round(1.3 * options.length) + 2  # sub-words of so many words, and the two special ones
    ids = torch.randint(1000, 20_000, (options.batch, pieces), device=options.device)
    return lambda: model(input_ids=ids), model.config.hidden_size, "BERT-base, random weights"


def compare(options: argparse.Namespace) -> list[Row]:
    """Sentences of real test sets that the fixed point and step-by-step decoding tag alike, for a trained run."""
    from nershift.data.formats import read_corpus
    from nershift.data.spans import by_length
    from nershift.tagger.tagger import Tagger

    model = Tagger.load(options.model, options.device).model
    head = model.head("target")
    if not isinstance(head, LabelAwareHead):
        raise SystemExit(f"{options.model} was not trained with --method laner")
    plain, rows = PositionByPosition(head), []
    for name in options.corpora or CROSSNER:
        sentences = read_corpus(name).test
        differ = ties = passes = 0
        seconds = [0.0, 0.0]
        for part in by_length(sentences, 64):
            chosen = [sentences[i] for i in part]
            batch = model.batch("target", chosen, [model.encoder.prepare(s.tokens) for s in chosen])
            with torch.no_grad():
                states = model.states(batch)
            clock = [_now(options.device)]
            expected, ahead = plain.greedy(states, batch.mask)
            clock.append(_now(options.device))
            head.decode(states, batch.mask)
            clock.append(_now(options.device))
            seconds = [total + b - a for total, a, b in zip(seconds, clock, clock[1:], strict=False)]
            found = fixed_point(head, states, batch.mask)
            wrong = (expected != found.tags).any(1)
            differ += int(wrong.sum())
            ties += int((wrong & (ahead.amin(1) < TIE)).sum())
            passes += int(found.passes.sum())
        extra: dict[str, float | str] = {
            "sentences": len(sentences),
            "differ": differ,
            "of these near-ties": ties,
            "mean passes": passes / len(sentences),
        }
        rows.append(Row(name, 1e3 * seconds[0], 1e3 * seconds[1], None, extra))
    return rows


def _now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="time for each case")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--size", type=int, default=768, help="of an encoder state")
    parser.add_argument("--encoder", default="", help="a transformer to run below the heads (on a GPU: BERT-base)")
    parser.add_argument("--tune", action="store_true", help="time the parts of decoding on a GPU")
    parser.add_argument("--model", type=Path, help="a run of `nershift train --method laner`")
    parser.add_argument("corpora", nargs="*", help="catalog names; CrossNER's five by default")
    options = parser.parse_args()
    if options.model:
        report(
            "Fixed point and step by step on test sentences",
            compare(options),
            "step by step",
            options.device,
            options.json,
        )
        return
    if options.tune:
        tune(options)
        return
    rows = speed(options)
    if options.encoder or options.device != "cpu":
        rows.append(against_softmax(options))
    title = f"Label-aware head, batch {options.batch}, length {options.length}"
    report(title, rows, "position by position", options.device, options.json)


if __name__ == "__main__":
    main()
