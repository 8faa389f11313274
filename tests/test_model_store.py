from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence, by_length
from nershift.encoders.base import make_encoder
from nershift.errors import CheckpointError, DataError
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from nershift.storage import load_tensors, save_tensors

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def corpus(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("news", train=20)


@pytest.fixture
def model(corpus: Corpus) -> TaggingModel:
    torch.manual_seed(0)
    encoder = make_encoder(build(EncoderConfig, {"words": {"size": 6}, "recurrent": {"size": 4}}), corpus.train)
    spaces = {
        "target": corpus.label_space(),
        "train": LabelSpace.of(["x"], "BIO"),
        "a.b c": LabelSpace.of(["y"]),
    }
    heads = {k: make_head("softmax" if k == "train" else "crf", s, encoder.size) for k, s in spaces.items()}
    return TaggingModel(encoder, heads, {"judge": torch.nn.Linear(3, 2)})


def test_decoder_keys_may_be_any_names(model: TaggingModel) -> None:
    assert [key for key, _ in model.named_heads()] == ["target", "train", "a.b c"]
    assert model.head("train").space.types == ("x",)
    assert model.head("a.b c").space.types == ("y",)
    for name in ("keys", "type", "forward", "_modules", ""):
        model.add_head(name, make_head("crf", LabelSpace.of(["z"]), model.encoder.size))
        assert model.head(name).space.types == ("z",)


def test_prediction_does_not_depend_on_batching_or_order(model: TaggingModel, corpus: Corpus) -> None:
    rows = [*corpus.test, Sentence.of([]), *corpus.train]
    one_by_one = [model.predict("target", [s])[0] for s in rows]
    assert any(s.spans for s in one_by_one)
    for size in (2, 7, 500):
        assert model.predict("target", rows, batch_size=size) == one_by_one
    assert model.training  # as it was before


def test_confidences_are_probabilities(model: TaggingModel, corpus: Corpus) -> None:
    for key in ("target", "train"):
        scored = model.predict(key, corpus.test, confidence=True)
        assert [s.spans for s in scored] == [s.spans for s in model.predict(key, corpus.test)]
        scores = [span.score for s in scored for span in s.spans]
        assert scores
        assert all(c is not None and 0 <= c <= 1 for c in scores)


def test_loss_is_the_mean_over_sentences(model: TaggingModel, corpus: Corpus) -> None:
    model.eval()

    def loss(rows: list[Sentence]) -> float:
        tags = [model.head("target").targets(s) for s in rows]
        batch = model.batch("target", rows, [model.encoder.prepare(s.tokens) for s in rows], tags)
        return model(batch).item()

    rows = list(corpus.train[:7])
    assert loss(rows) == pytest.approx(sum(loss([s]) for s in rows) / 7, abs=1e-4)


def test_types_outside_the_label_space_are_named(model: TaggingModel) -> None:
    with pytest.raises(DataError, match=r"entity type 'plaec'.*did you mean 'place'"):
        model.head("target").targets(Sentence.of(["x"], [(0, 1, "plaec")], place="f:3"))


def test_batches_of_like_length() -> None:
    rows = [Sentence.of(["w"] * n) for n in (3, 0, 9, 1, 3)]
    assert list(by_length(rows, 2)) == [[3, 0], [4, 2]]


def test_round_trip(model: TaggingModel, corpus: Corpus, tmp_path: Path) -> None:
    save_model(tmp_path, model, {"method": "m", "n": [1]})
    again, meta = load_model(tmp_path)
    assert meta == {"method": "m", "n": [1]}
    assert not again.training
    assert [k for k, _ in again.named_heads()] == [k for k, _ in model.named_heads()]
    saved = {k: v for k, v in model.state_dict().items() if not k.startswith("extras.")}
    assert again.state_dict().keys() == saved.keys()
    assert all(torch.equal(v, saved[k]) for k, v in again.state_dict().items())
    for key, head in model.named_heads():
        assert again.head(key).space == head.space
        assert again.predict(key, corpus.test) == model.predict(key, corpus.test)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["manifest.json", "model.json", "model.safetensors"]


def test_saving_twice_gives_the_same_bytes(model: TaggingModel, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_model(tmp_path / name, model, {})
    again, _ = load_model(tmp_path / "a")
    save_model(tmp_path / "c", again, {})
    for file in ("model.json", "model.safetensors"):
        assert len({(tmp_path / name / file).read_bytes() for name in "abc"}) == 1


def test_broken_folders(model: TaggingModel, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model here"):
        load_model(tmp_path / "absent")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="no model here"):
        load_model(tmp_path / "file")
    save_model(tmp_path, model, {})
    good = json.loads((tmp_path / "model.json").read_text())
    weights = (tmp_path / "model.safetensors").read_bytes()

    def broken(found: str, description: object = good) -> None:
        (tmp_path / "model.json").write_text(description if isinstance(description, str) else json.dumps(description))
        with pytest.raises(CheckpointError, match=found) as error:
            load_model(tmp_path, verify=False)
        assert str(tmp_path) in error.value.place

    broken("not readable JSON", "{")
    broken("format None", [1])
    broken("format 99", good | {"format": 99})
    broken("something is missing or wrong", {k: v for k, v in good.items() if k != "heads"})
    broken("something is missing or wrong", good | {"encoder": {"kind": "pigeon"}})
    broken("do not fit model.json", good | {"heads": {}})
    other = json.loads(json.dumps(good))
    other["encoder"]["words"]["trained"].append("more")
    broken("do not fit model.json", other)
    (tmp_path / "model.safetensors").write_bytes(weights[:-40])
    broken("not a readable safetensors file")
    (tmp_path / "model.safetensors").unlink()
    broken("no such file")


def test_weights_of_another_model_are_refused(model: TaggingModel, tmp_path: Path) -> None:
    save_model(tmp_path, model, {})
    tensors, _ = load_tensors(tmp_path / "model.safetensors")
    save_tensors(tmp_path / "model.safetensors", tensors | {"stranger": torch.ones(1)}, {})
    with pytest.raises(CheckpointError, match="stranger"):
        load_model(tmp_path, verify=False)


def test_saved_weights_of_parts_that_a_decoder_no_longer_has_are_passed_over(
    model: TaggingModel, corpus: Corpus, tmp_path: Path
) -> None:
    size = model.encoder.size
    heads = {k: make_head("label-aware", corpus.label_space("BIO"), size) for k in ("target", "a.b c")}
    model = TaggingModel(model.encoder, heads)
    save_model(tmp_path, model, {})
    tensors, _ = load_tensors(tmp_path / "model.safetensors")
    names = [name.removesuffix("labels.weight") for name in tensors if name.endswith("labels.weight")]
    assert len(names) == 2
    old = {f"{name}draft.{part}": torch.ones(3) for name in names for part in ("weight", "bias")}
    save_tensors(tmp_path / "model.safetensors", tensors | old, {})
    again, _ = load_model(tmp_path, verify=False)
    assert again.predict("target", corpus.test) == model.predict("target", corpus.test)
    save_tensors(tmp_path / "model.safetensors", tensors | {"encoder.draft.weight": torch.ones(3)}, {})
    with pytest.raises(CheckpointError, match=r"encoder\.draft"):
        load_model(tmp_path, verify=False)
