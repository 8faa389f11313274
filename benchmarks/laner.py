"""Label-aware decoding: all prefixes at once against position by position, in the same run, with equal results.

    python benchmarks/laner.py [--device cuda] [--json FILE] [--seconds 5] [--batch 64] [--length 50]
    python benchmarks/laner.py --device cuda --tune      # only: the GPU kernel by its sizes, and a replayed pass
    python benchmarks/laner.py --encoder NAME            # below the heads, in place of a random BERT-base
    python benchmarks/laner.py --model RUN [CORPUS ...]  # only: is every test sentence decoded as token by token?

The baseline is the head without its folder `fast`: the label BiLSTM runs over every prefix in turn, all sentences of
the batch together, as the equations say and the public code does. Weights are trained for a moment on made-up states,
so that decoding has something to decide. For two CPU cores set ``OMP_NUM_THREADS=2``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from common import Row, report, time_rivals
from torch import Tensor

from nershift.data.labels import LabelSpace
from nershift.heads.softmax import SoftmaxHead
from nershift.methods.laner.fast import kernels
from nershift.methods.laner.fast.check import compare as compare_decoding
from nershift.methods.laner.fast.fixed_point import fixed_point
from nershift.methods.laner.fast.graph_decoding import GraphDecoder
from nershift.methods.laner.fast.prefix_states import forward_states, recurrence
from nershift.methods.laner.head import LabelAwareHead

SPACE = LabelSpace.of([f"type{i:02}" for i in range(14)], "BIO")  # as many types as CrossNER's ai
CROSSNER = [f"crossner_{d}" for d in ("politics", "science", "music", "literature", "ai")]


def plain_loss(head: LabelAwareHead, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """The loss of the head position by position, as its file has it without the folder `fast`."""
    scores = torch.stack([head.next_tag(states, mask, tags[:, :i]) for i in range(tags.shape[1])], 1)
    return -scores.gather(2, tags[..., None])[..., 0].masked_fill(~mask, 0.0).sum(1)


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
    states, mask, tags = made_up(options.batch, options.length, size, device, 7)
    states.requires_grad_()
    leaves = [states, *head.parameters()]

    def train_plain() -> None:
        plain_loss(head, states, mask, tags).mean().backward()

    def train_ours() -> None:
        head.loss(states, mask, tags).mean().backward()

    def gradients(run: Callable[[], None]) -> list[Tensor]:
        for leaf in leaves:
            leaf.grad = None
        run()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    pairs = zip(gradients(train_plain), gradients(train_ours), strict=True)
    difference = max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs)
    step = time_rivals({"baseline": train_plain, "ours": train_ours}, device, options.seconds, warm_up=1)
    rows = [Row("training step", step["baseline"], step["ours"], difference)]
    clean = states.detach()
    expected, result = head.greedy(clean, mask), fixed_point(head, clean, mask)
    rivals = {"baseline": lambda: head.greedy(clean, mask), "ours": lambda: head.decode(clean, mask)}
    decode = time_rivals(rivals, device, options.seconds, warm_up=1)
    extra: dict[str, float | str] = {
        "mean passes": float(result.passes.float().mean()),
        "most passes": float(result.passes.max()),
    }
    if clean.is_cuda:
        extra["passes, replayed"] = float(_captured(head, clean, mask).passes)
    differing = float((expected != result.tags).sum())
    rows.append(Row("greedy decoding", decode["baseline"], decode["ours"], differing, extra))
    return rows


@torch.no_grad()
def _captured(head: LabelAwareHead, states: Tensor, mask: Tensor) -> GraphDecoder:
    """Decoding as :meth:`LabelAwareHead.decode` does it on a GPU for a shape seen before, after one call."""
    decoder = GraphDecoder(head, states, mask)
    decoder.capture()
    decoder(states, mask)
    return decoder


def tune(options: argparse.Namespace) -> None:
    """Print how long the GPU kernel takes by the size of its blocks, and how long the replayed parts take."""
    _tune(options, trained(options.size, options.device))


@torch.no_grad()
def _tune(options: argparse.Namespace, head: LabelAwareHead) -> None:
    states, mask, tags = made_up(options.batch, options.length, options.size, options.device, 7)
    table = head.labels.weight
    ahead = forward_states(head.prefixes, table, tags)
    query, scores = torch.randn_like(ahead), torch.randn(*mask.shape, options.length, device=options.device)
    inputs = (*recurrence(head.prefixes, table), tags, ahead, query, scores, mask, 0)
    decoder = _captured(head, states, mask)
    cases: dict[str, Callable[[], object]] = {
        f"kernel, {4 * quads} sentences a block": partial(kernels.context, *inputs, quads=quads) for quads in (1, 2)
    }
    cases |= {
        "forward states": lambda: forward_states(head.prefixes, table, tags),
        "replayed begin": decoder.replay_begin,
        "replayed pass": decoder.replay_settle,
        "replayed pass of few": decoder.replay_settle_few,
        f"replayed decoding, {decoder.passes} passes": lambda: decoder(states, mask),
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
    """Test sentences that a trained run decodes alike by fixed point and token by token, and the time of both."""
    from nershift.data.formats import read_corpus
    from nershift.tagger.tagger import Tagger

    model = Tagger.load(options.model, options.device).model
    head = model.head("target")
    if not isinstance(head, LabelAwareHead):
        raise SystemExit(f"{options.model} was not trained with --method laner")
    rows = []
    for name in options.corpora or CROSSNER:
        test = read_corpus(name).test
        with torch.no_grad():
            batches = [(model.states(batch), batch.mask) for _, batch in model.batches("target", test, 64)]
        seconds = []
        for decode in (head.greedy, head.decode):
            start = _now(options.device)
            for states, mask in batches:
                decode(states, mask)
            seconds.append(_now(options.device) - start)
        rows.append(Row(name, 1e3 * seconds[0], 1e3 * seconds[1], None, {**compare_decoding(head, batches)}))
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
            "Fixed point and token by token on test sentences",
            compare(options),
            "token by token",
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
