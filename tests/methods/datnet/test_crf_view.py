"""Views of a larger CRF against plain ones with the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nershift.backend.device import double_backward
from nershift.data.labels import SCHEMES, LabelSpace, Scheme
from nershift.data.spans import Span
from nershift.heads.crf.head import CRFHead
from nershift.methods.datnet.crf_view import CRFView
from nershift.storage import load_tensors, save_tensors
from nershift.training.loop import trainable

SIZE = 6
MASK = torch.arange(5) < torch.tensor([5, 1, 3, 0])[:, None]  # [4, 5]
# Row names differ from those of the types, and so does their order.
TARGET = {"zone": "zone", "person": "person", "drug": "drug"}
SOURCE = {"LOC": "zone", "PER": "person", "ORG": "source: organisation"}


@pytest.fixture(params=SCHEMES)
def whole(request: pytest.FixtureRequest) -> CRFHead:
    torch.manual_seed(4)
    scheme: Scheme = request.param
    made = CRFHead(LabelSpace.of({*TARGET.values(), *SOURCE.values()}, scheme), SIZE)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_()
    return made


def seen(whole: CRFHead, types: dict[str, str]) -> CRFView:
    return CRFView(whole, LabelSpace.of(types, whole.space.scheme), types)


def copied(whole: CRFHead, types: dict[str, str]) -> CRFHead:
    """Row by row, by the names of tags."""
    space = LabelSpace.of(types, whole.space.scheme)
    made = CRFHead(space, SIZE)
    rows = [whole.space.index[tag if tag == "O" else f"{tag[0]}-{types[tag[2:]]}"] for tag in space.tags]
    with torch.no_grad():
        for i, row in enumerate(rows):
            made.project.weight[i], made.project.bias[i] = whole.project.weight[row], whole.project.bias[row]
            made.starts[i], made.ends[i] = whole.starts[row], whole.ends[row]
            for j, after in enumerate(rows):
                made.transitions[i, j] = whole.transitions[row, after]
    return made


def batch(space: LabelSpace, seed: int) -> tuple[Tensor, Tensor]:
    """States, and tags of spans of several types."""
    torch.manual_seed(seed)
    spans = [Span(0, 2, space.types[0]), Span(2, 3, space.types[1]), Span(3, 5, space.types[-1])]
    tags = torch.tensor(space.encode(spans, 5)).expand(4, 5)
    one = torch.tensor(space.encode([Span(0, 1, space.types[1])], 5))
    return torch.randn(4, 5, SIZE), torch.where(MASK.all(1)[:, None], tags, one)


@pytest.mark.parametrize("types", [TARGET, SOURCE], ids=["target", "source"])
def test_a_view_does_what_a_decoder_with_its_rows_does(whole: CRFHead, types: dict[str, str]) -> None:
    view, plain = seen(whole, types), copied(whole, types)
    states, tags = batch(view.space, 1)
    assert torch.equal(view.loss(states, MASK, tags), plain.loss(states, MASK, tags))
    assert view.decode(states, MASK) == plain.decode(states, MASK)
    spans = [[Span(0, 1, t) for t in types], [], [Span(1, 3, view.space.types[0])], []]
    assert view.confidences(states, MASK, spans) == plain.confidences(states, MASK, spans)
    assert view.describe() == plain.describe()


def test_types_of_the_other_side_have_no_part_in_the_sum(whole: CRFHead) -> None:
    view = seen(whole, TARGET)
    states, tags = batch(view.space, 1)
    before = view.loss(states, MASK, tags)
    with torch.no_grad():
        others = [i for i, tag in enumerate(whole.space.tags) if tag.endswith("organisation")]
        whole.project.bias[others] += 50.0
        whole.starts[others] += 50.0
    assert torch.equal(view.loss(states, MASK, tags), before)


@pytest.mark.parametrize("twice", [False, True])
def test_rows_that_both_sides_have_get_the_gradients_of_both(whole: CRFHead, twice: bool) -> None:
    expected = {name: torch.zeros_like(p) for name, p in whole.named_parameters()}
    total = torch.zeros(())
    for seed, types in enumerate((TARGET, SOURCE)):
        view, plain = seen(whole, types), copied(whole, types)
        states, tags = batch(view.space, seed)
        plain.loss(states, MASK, tags).sum().backward()
        if twice:
            with double_backward():
                total = total + view.loss(states, MASK, tags).sum()
        else:
            total = total + view.loss(states, MASK, tags).sum()
        rows = torch.tensor([whole.space.index[t if t == "O" else f"{t[0]}-{types[t[2:]]}"] for t in view.space.tags])
        for name, p in plain.named_parameters():
            assert p.grad is not None
            at = (rows[:, None], rows) if name == "transitions" else (rows,)
            expected[name][at] += p.grad
    total.backward()
    for name, p in whole.named_parameters():
        torch.testing.assert_close(p.grad, expected[name], rtol=1e-4, atol=1e-5)


def test_over_all_types_it_is_the_whole(whole: CRFHead) -> None:
    view = seen(whole, {t: t for t in whole.space.types})
    states, tags = batch(whole.space, 1)
    parameters = list(whole.parameters())
    found, expected = (torch.autograd.grad(head.loss(states, MASK, tags).sum(), parameters) for head in (view, whole))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_parameters_are_there_once_and_go_where_the_model_goes(whole: CRFHead) -> None:
    both = nn.ModuleDict({"target": seen(whole, TARGET), "source": seen(whole, SOURCE)})
    assert {n.partition(".")[2] for n, _ in both.named_parameters()} == {n for n, _ in whole.named_parameters()}
    assert {id(p) for p in both.parameters()} == {id(p) for p in whole.parameters()}
    both.double()
    assert both["target"].starts is both["source"].starts is whole.starts
    assert whole.starts.dtype == torch.float64
    assert both["target"].project.rows.dtype == torch.int64


def test_a_step_never_looks_at_a_value(whole: CRFHead) -> None:
    """Meta tensors have none; steps on the GPU are recorded."""
    view = seen(whole, TARGET).to("meta")
    assert view.project(torch.empty(4, 5, SIZE, device="meta")).shape == (4, 5, len(view.space))
    assert [table.shape for table in view.chain()] == [(len(view.space),) * 2, *[(len(view.space),)] * 2]


def test_a_checkpoint_of_views_can_be_written(whole: CRFHead, tmp_path: Path) -> None:
    both = nn.ModuleDict({"target": seen(whole, TARGET), "source": seen(whole, SOURCE)})
    save_tensors(tmp_path / "state.safetensors", trainable(both), {})
    written, _ = load_tensors(tmp_path / "state.safetensors")
    assert len(written) == len(list(both.parameters()))  # each once, though both views have it
    assert torch.equal(written["target.starts"], whole.starts)


def test_plain_is_a_decoder_of_its_own(whole: CRFHead) -> None:
    view = seen(whole, SOURCE)
    view.temperature = 1.5
    plain, oracle = view.plain(), copied(whole, SOURCE)
    assert type(plain) is CRFHead
    assert plain.temperature == 1.5
    assert {n for n, _ in plain.state_dict().items()} == {n for n, _ in oracle.state_dict().items()}
    assert all(torch.equal(value, oracle.state_dict()[n]) for n, value in plain.state_dict().items())
    with torch.no_grad():
        plain.starts += 1.0
        plain.project.weight += 1.0
    assert torch.equal(view.starts, whole.starts)
    assert not torch.equal(plain.starts, view.scores()[1])
