from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nershift import Tagger
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, ConfigError
from nershift.run import transfer
from nershift.tagger import tagger as tagger_module
from nershift.tagger.tagger import Entity

MakeCorpus = Callable[..., Corpus]


@pytest.fixture(scope="module")
def folder(make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "r"
    settings = {
        "device": "cpu",
        "encoder": {
            "words": {"size": 16},
            "chars": {"filters": 16},
            "recurrent": {"size": 16},
            "dropout": 0.1,
        },
        "train": {"epochs": 12, "batch_size": 8, "lr": 0.02},
    }
    run = transfer("target_only", make_corpus("news", train=80), out=out, config=settings, quiet=True, report=False)
    assert run.f1 > 0.9
    return out


@pytest.fixture(scope="module")
def tagger(folder: Path) -> Tagger:
    return Tagger.load(folder)


def test_a_device_that_is_not_there_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tpu", "meta", ""):
        with pytest.raises(ConfigError, match=r"cpu \| cuda \| mps"):
            Tagger.load(folder, name)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ConfigError, match="no CUDA device was found"):
        Tagger.load(folder, "cuda")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(ConfigError, match="no CUDA device 3 was found"):
        Tagger.load(folder, "cuda:3")
    assert Tagger.load(folder, "cpu").types


def _found(entities: list[Entity]) -> list[tuple[str, str]]:
    return [(e.text, e.label) for e in entities]


def test_entities_of_a_text(tagger: Tagger) -> None:
    text = "Okafor flew from Leeds to Porto ."
    entities = tagger(text)
    assert _found(entities) == [("Okafor", "person"), ("Leeds", "place"), ("Porto", "place")]
    assert [(e.start, e.end) for e in entities] == [(0, 6), (17, 22), (26, 31)]
    assert all(0 <= e.score <= 1 for e in entities)
    assert entities[0].to_dict() == {
        "start": 0, "end": 6, "label": "person", "text": "Okafor", "score": entities[0].score,
        "token_start": 0, "token_end": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Okafor flew from Leeds to Porto .\n\n  In Graz , Ruiz met Ada Novak .\r\n\tNobody in Lima spoke .",
        "🦉 Okafor flew from Leeds to Porto . Ünïcödé 東京 – “In Graz , Ruiz met Ada Novak .” 👩‍👩‍👧 e\u0301",
        "Okafor flew from Leeds to Porto . " * 400,
        "Okafor flew from Leeds to Porto " * 400,
    ],
)
def test_offsets_point_at_the_entity_in_any_text(tagger: Tagger, text: str) -> None:
    entities = tagger(text)
    assert len(entities) >= min(6, 3 * text.count("Leeds"))
    end = 0
    for e in entities:
        assert end <= e.start < e.end <= len(text)
        assert e.text == text[e.start : e.end]
        assert e.text == e.text.strip()
        end = e.end
    leeds = [e for e in entities if e.text == "Leeds"]
    assert len(leeds) >= 0.9 * text.count("Leeds")


def test_many_texts_give_what_each_gives_alone(tagger: Tagger) -> None:
    texts = [
        "Okafor flew from Leeds to Porto .",
        "",
        " \n\t ",
        "In Graz , Ruiz met Ada Novak .\nNobody in Lima spoke .",
    ]
    together = tagger(texts)
    assert [_found(e) for e in together] == [_found(tagger(t)) for t in texts]
    for one, row in zip(texts, together, strict=True):
        assert [e.score for e in tagger(one)] == pytest.approx([e.score for e in row], abs=1e-5)
    assert together[1] == together[2] == []
    assert tagger("") == []
    assert tagger([]) == []


def test_tokens_and_sentences(tagger: Tagger) -> None:
    (tagged, empty) = tagger.tag_tokens([["Nobody", "in", "Leeds", "spoke", "."], []])
    assert [(s.start, s.end, s.label) for s in tagged.spans] == [(2, 3, "place")]
    assert empty == Sentence.of([])
    wrong = Sentence.of(["Nobody", "in", "Leeds", "spoke", "."], [(0, 1, "person")], place="f:1")
    (again,) = tagger.tag_sentences([wrong])
    assert again.spans == tagged.spans
    assert again.place == "f:1"


def test_words_never_seen(tagger: Tagger) -> None:
    for text in ("Ωμέγα ξ", "x" * 5000, "\x00 \x07", "1" * 40):
        assert isinstance(tagger(text), list)


def test_save_and_load(tagger: Tagger, make_corpus: MakeCorpus, tmp_path: Path) -> None:
    tagger.save(tmp_path / "copy")
    again = Tagger.load(tmp_path / "copy")
    rows = make_corpus("news", seed=3).train
    assert again.tag_sentences(rows) == tagger.tag_sentences(rows)
    mine, theirs = ([s.score for r in t.tag_sentences(rows) for s in r.spans] for t in (again, tagger))
    assert mine == theirs
    assert again.types == ("person", "place")
    assert again.meta == tagger.meta
    assert again.meta["method"] == "target_only"


def test_the_cache_of_word_forms_stays_bounded(tagger: Tagger, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _found(tagger("Okafor flew from Leeds to Porto ."))
    monkeypatch.setattr(tagger_module, "CACHE_BYTES", 1_000_000)
    cache = tagger.model.encoder.word_cache
    assert cache is not None
    for n in range(5):  # few forms, but long ones
        tagger(" ".join(f"word{n}x{i}" + "z" * 20_000 for i in range(30)))
    assert tagger.model.encoder.word_cache is not cache
    rows = [Sentence.of([f"w{n}x{i}" + "z" * 20_000 for i in range(20)]) for n in range(40)]
    largest = []
    forget = tagger.model.encoder.forget_beyond
    monkeypatch.setattr(
        tagger.model.encoder,
        "forget_beyond",
        lambda most: (largest.append(tagger.model.encoder.word_cache.bytes), forget(most)),
    )
    tagger.tag_sentences(rows, batch_size=2)  # 16 MB of forms in one call
    assert max(largest) < 2_500_000
    assert _found(tagger("Okafor flew from Leeds to Porto .")) == before


def test_broken_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model here") as error:
        Tagger.load(tmp_path)
    assert error.value.fix
    Tagger.load(folder).save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        Tagger.load(tmp_path, verify=False)
    described = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(described | {"format": 7}))
    with pytest.raises(CheckpointError, match="format 7"):
        Tagger.load(tmp_path, verify=False)
