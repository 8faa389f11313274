"""Rows of new types: prototypes and names against plain computations, and nothing else touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nershift.config import EncoderConfig, build
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.base import Encoder, make_encoder
from nershift.heads import start
from nershift.heads.base import Head, LabelledStates, make_head
from nershift.heads.span import _RARE, SpanHead
from nershift.heads.start import AUTO, in_words, labelled_states, name_vectors, start_new_rows
from nershift.heads.tags import TagHead

SPACE = LabelSpace.of(["drug", "person", "town"])  # no sentence has a town
KINDS = ["crf", "softmax"]
TINY = {"words": {"size": 12}, "chars": {"filters": 8, "widths": [2, 3]}, "recurrent": {"size": 10}, "dropout": 0.5}
SENTENCES = [
    Sentence.of(["pt", "Ada", "Novak", "given", "zolpirex", "today"], [(1, 3, "person"), (4, 5, "drug")]),
    Sentence.of(["nebutol", "stopped", ",", "dr", "Ada", "informed"], [(0, 1, "drug"), (4, 5, "person")]),
    Sentence.of(["no", "complaints"]),
    Sentence.of([]),
    Sentence.of(["Jo", "van", "der", "Lind", "seen"], [(0, 4, "person")]),
]


@pytest.fixture
def encoder() -> Encoder:
    torch.manual_seed(3)
    return make_encoder(build(EncoderConfig, TINY), SENTENCES).train()


def new_head(kind: str, space: LabelSpace = SPACE, size: int = 20) -> Head:
    torch.manual_seed(4)
    return make_head(kind, space, size).requires_grad_(False)


def tokens(encoder: Encoder, head: TagHead) -> tuple[Tensor, Tensor]:
    """States ``[N, H]`` and tags ``[N]`` of all tokens, sentence by sentence."""
    states, tags = list[Tensor](), list[int]()
    encoder.eval()
    for s in SENTENCES:
        if len(s):
            states.append(encoder(**encoder.collate([encoder.prepare(s.tokens)]))[0].detach())
            tags += head.targets(s).tolist()
    encoder.train()
    return torch.cat(states), torch.tensor(tags)


def rows_of(head: TagHead, *types: str) -> list[int]:
    return [i for tag, i in head.space.index.items() if tag.partition("-")[2] in types]


@pytest.mark.parametrize("kind", KINDS)
def test_without_kept_rows_a_token_takes_the_tag_of_the_nearest_mean(kind: str, encoder: Encoder) -> None:
    head = new_head(kind)
    random = head.project.weight.norm(dim=1).mean()
    start_new_rows(head, encoder, SENTENCES)
    states, tags = tokens(encoder, head)
    seen = tags.unique()
    means = torch.stack([states[tags == tag].mean(0) for tag in seen])
    anywhere = torch.cat([states, torch.randn(50, 20)])
    scores = head.project(anywhere)[:, seen]
    distances = -torch.cdist(anywhere, means).square() / 2
    scale = (scores - scores[:, :1])[0, 1] / (distances - distances[:, :1])[0, 1]
    torch.testing.assert_close(scores - scores[:, :1], scale * (distances - distances[:, :1]), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(head.project.weight[rows_of(head, "drug", "person")].norm(dim=1).mean(), random)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_without_a_token_has_the_mean_of_its_type_and_a_type_without_one_stays_random(
    kind: str, encoder: Encoder
) -> None:
    head, random = new_head(kind), new_head(kind)
    start_new_rows(head, encoder, SENTENCES)
    states, tags = tokens(encoder, head)
    index, centre = head.space.index, states.mean(0)
    drug = states[tags == index["S-drug"]].mean(0) - centre  # all drugs are single words
    for letter in "BIES":
        row = head.project.weight[index[f"{letter}-drug"]]
        torch.testing.assert_close(row / row.norm(), drug / drug.norm())
        town = index[f"{letter}-town"]
        assert torch.equal(head.project.weight[town], random.project.weight[town])
        assert head.project.bias[town] == random.project.bias[town]
    assert head.new_rows == {
        "drug": "from prototypes of the labelled sentences",
        "person": "from prototypes of the labelled sentences",
        "town": "at random",
    }
    assert in_words(head) == (
        "rows of drug, person started from prototypes of the labelled sentences; rows of town started at random"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_kept_rows_stay_and_new_ones_are_as_long_and_meet_outside_halfway(kind: str, encoder: Encoder) -> None:
    head, old = new_head(kind), new_head(kind, LabelSpace.of(["PER", "misc"]))
    old.project.weight.mul_(3)
    assert head.start_from(old, {"person": "PER"})
    before = {name: value.clone() for name, value in head.state_dict().items()}
    start_new_rows(head, encoder, SENTENCES)
    drug, kept = rows_of(head, "drug"), [0, *rows_of(head, "person")]
    for name, value in head.state_dict().items():
        others = [i for i in range(len(SPACE)) if i not in drug or not name.startswith("project")]
        assert torch.equal(value[others], before[name][others])
    weight = head.project.weight
    torch.testing.assert_close(weight[drug].norm(dim=1).mean(), weight[kept].norm(dim=1).mean())
    states, tags = tokens(encoder, head)
    halfway = (states[tags == SPACE.index["S-drug"]].mean(0) + states[tags == 0].mean(0)) / 2
    scores = head.project(halfway)
    torch.testing.assert_close(scores[drug], scores[0].expand(4), rtol=1e-4, atol=1e-4)
    assert list(head.new_rows) == ["drug", "town"]


def spans_of(encoder: Encoder, head: SpanHead) -> tuple[Tensor, dict[str, list[Tensor]]]:
    """The mean of all spans up to the width, and the vectors of each type's spans, span by span."""
    everything, by_type = list[Tensor](), dict[str, list[Tensor]]()
    for s in SENTENCES:
        if not len(s):
            continue
        encoder.eval()
        states = encoder(**encoder.collate([encoder.prepare(s.tokens)]))[0].detach()
        encoder.train()
        gold = {(x.start, x.end): x.label for x in s.spans}
        for i in range(len(s)):
            for j in range(i, min(len(s), i + head.settings.max_width)):
                vector = torch.tanh(head.first(states[i]) + head.last(states[j]) + head.width.weight[j - i])
                everything.append(vector)
                if (i, j + 1) in gold:
                    by_type.setdefault(gold[i, j + 1], []).append(vector)
    return torch.stack(everything).mean(0), by_type


@pytest.mark.parametrize("keep", [False, True])
def test_span_rows_point_to_the_mean_span_of_their_type(keep: bool, encoder: Encoder) -> None:
    head = new_head("span")
    assert isinstance(head, SpanHead)
    if keep:
        assert head.start_from(new_head("span", LabelSpace.of(["PER"])), {"person": "PER"})
    town, person = SPACE.types.index("town"), SPACE.types.index("person")
    before = head.project.weight.clone()
    start_new_rows(head, encoder, SENTENCES)
    centre, by_type = spans_of(encoder, head)
    usual = head.project(centre)[person] if keep else torch.tensor(_RARE)
    started = ["drug"] if keep else ["drug", "person"]
    for label in started:
        row = head.project.weight[SPACE.types.index(label)]
        away = torch.stack(by_type[label]).mean(0) - centre
        torch.testing.assert_close(row / row.norm(), away / away.norm(), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(head.project(centre)[SPACE.types.index(label)], usual)
    lengths = head.project.weight[[SPACE.types.index(t) for t in started]].norm(dim=1)
    torch.testing.assert_close(lengths.mean(), before[person].norm() if keep else before.norm(dim=1).mean())
    assert torch.equal(head.project.weight[town], before[town])
    assert torch.equal(head.project.weight[person], before[person]) is keep


@pytest.mark.parametrize("kind", KINDS)
def test_rows_from_names_point_to_the_names_at_the_mean_length(kind: str, encoder: Encoder) -> None:
    head, random = new_head(kind), new_head(kind)
    start_new_rows(head, encoder, [], "names", ["drug", "town"])
    length = random.project.weight.norm(dim=1).mean()
    for label, vector in zip(["drug", "town"], name_vectors(encoder, ["drug", "town"]), strict=True):
        for row in rows_of(head, label):
            torch.testing.assert_close(head.project.weight[row], length * vector)
    untouched = [0, *rows_of(head, "person")]
    assert torch.equal(head.project.weight[untouched], random.project.weight[untouched])
    assert torch.equal(head.project.bias, random.project.bias)
    assert set(head.new_rows.values()) == {"from their names"}


@pytest.mark.parametrize(
    ("kind", "how", "types"),
    [
        ("crf", "random", None),
        ("crf", "names", ["drug"]),  # a name alone has nothing to differ from
        ("span", "names", None),
        ("prototypes", "prototypes", None),
        ("crf", "prototypes", ["town"]),
    ],
)
def test_what_cannot_start_as_told_stays_random_and_says_so(
    kind: str, how: start.RowStart, types: Sequence[str] | None, encoder: Encoder
) -> None:
    head, random = new_head(kind), new_head(kind)
    start_new_rows(head, encoder, SENTENCES, how, types)
    for name, value in head.state_dict().items():
        assert torch.equal(value, random.state_dict()[name])
    assert head.new_rows == dict.fromkeys(types or SPACE.types, "at random")


@pytest.mark.parametrize("kind", [*KINDS, "span"])
@pytest.mark.parametrize("sentences", [[], SENTENCES[2:4]])
def test_sentences_without_entities_change_nothing(kind: str, sentences: list[Sentence], encoder: Encoder) -> None:
    head, random = new_head(kind), new_head(kind)
    start_new_rows(head, encoder, sentences)
    for name, value in head.state_dict().items():
        assert torch.equal(value, random.state_dict()[name])


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_of_entities_alone_leave_the_row_of_outside(kind: str, encoder: Encoder) -> None:
    head, random = new_head(kind), new_head(kind)
    start_new_rows(head, encoder, [Sentence.of(["Ada", "zolpirex"], [(0, 1, "person"), (1, 2, "drug")])])
    assert torch.equal(head.project.weight[0], random.project.weight[0])
    assert head.project.weight.isfinite().all()
    assert head.project.bias.isfinite().all()


@pytest.mark.parametrize("how", ["prototypes", "names"])
def test_it_draws_nothing_leaves_the_encoder_alone_and_repeats(how: start.RowStart, encoder: Encoder) -> None:
    heads = [new_head("crf"), new_head("crf")]
    weights = [p.clone() for p in encoder.parameters()]
    for head in heads:
        before = torch.get_rng_state()
        start_new_rows(head, encoder, SENTENCES, how)
        assert torch.equal(torch.get_rng_state(), before)
    assert encoder.training
    assert all(p.grad is None and torch.equal(p, w) for p, w in zip(encoder.parameters(), weights, strict=True))
    assert torch.equal(heads[0].project.weight, heads[1].project.weight)


def test_auto_follows_the_table(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    met = dict[tuple[bool, bool], str]()
    for trained in (False, True):
        monkeypatch.setitem(AUTO, (False, trained), "names" if trained else "random")
        head = new_head("crf")
        start_new_rows(head, encoder, SENTENCES, "auto", trained=trained)
        (met[False, trained],) = set(head.new_rows.values())
    assert met == {(False, False): "at random", (False, True): "from their names"}
    assert set(AUTO) == {(a, b) for a in (False, True) for b in (False, True)}


def test_of_very_many_sentences_some_with_the_new_types_are_read(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Counter[tuple[str, ...]]()

    def spy(encoder: Encoder, head: Head, sentences: Sequence[Sentence]) -> LabelledStates:
        read.update(s.tokens for s in sentences)
        return labelled_states(encoder, head, sentences)

    monkeypatch.setattr(start, "labelled_states", spy)
    monkeypatch.setattr(start, "MOST", 4)
    start_new_rows(new_head("crf"), encoder, SENTENCES * 3, types=["drug"])
    assert sum(read.values()) <= 4
    assert set(read) <= {s.tokens for s in SENTENCES[:2]}
