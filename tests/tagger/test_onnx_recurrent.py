from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx_cases import TYPES, assert_same, random_encoder, random_tagger, recurrent_settings

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.methods.datnet.shared_private import SharedPrivateEncoder
from nershift.tagger.entities import Entity
from nershift.tagger.onnx.export import export_onnx
from nershift.tagger.onnx.tagger import OnnxTagger

MakeCorpus = Callable[..., Corpus]
ODD = [
    Sentence.of([]),
    Sentence.of(["x" * 40, "\x00", "Ω", "12/3"]),
    Sentence.of(["Leeds"]),
    Sentence.of(["In", "Graz"] * 90),
]


def _export(tagger: Any, folder: Path) -> OnnxTagger:
    check = export_onnx(tagger, folder, sentences=[Sentence.of(["Ada", "flew", "from", "Leeds", "to", "Porto", "."])])
    assert check.largest_difference < 1e-4
    assert check.tags_changed == 0
    return OnnxTagger.load(folder, threads=1)


@pytest.mark.parametrize(
    ("settings", "kind", "scheme"),
    [
        (recurrent_settings(), "crf", "BIOES"),
        (recurrent_settings(cell="lstm"), "crf", "BIO"),
        (recurrent_settings(layers=2), "softmax", "BILOU"),
        (recurrent_settings(cell="lstm", layers=3), "prototypes", "BIOES"),
        (recurrent_settings() | {"chars": {"use": False}}, "crf", "IOB1"),
    ],
)
def test_same_entities_as_torch(
    settings: dict[str, Any], kind: str, scheme: str, make_corpus: MakeCorpus, tmp_path: Path
) -> None:
    seen, new = make_corpus("news", train=40).train, make_corpus("clinic", train=60).train
    tagger = random_tagger(random_encoder(settings, seen), kind, scheme, method="target_only")
    made = _export(tagger, tmp_path / "out")
    assert made.types == tuple(TYPES)
    assert made.meta == {"method": "target_only"}
    assert_same(made, tagger, [*seen, *new, *ODD], some=30)


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_types_that_are_not_predicted_stay_out(kind: str, make_corpus: MakeCorpus, tmp_path: Path) -> None:
    rows = make_corpus("news").train
    tagger = random_tagger(random_encoder(recurrent_settings(), rows), kind, "BIOES", method="target_only")
    tagger.model.head("target").restrict(TYPES[:1])
    made = _export(tagger, tmp_path / "out")
    assert made.types == tagger.types == tuple(TYPES[:1])
    assert_same(made, tagger, [*rows, *ODD], some=10)
    assert {span.label for s in made.tag_sentences(rows) for span in s.spans} == set(TYPES[:1])


def test_layers_side_by_side(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    rows = make_corpus("news").train
    plain = random_encoder(recurrent_settings(), rows)
    assert isinstance(plain, RecurrentEncoder)
    encoder = SharedPrivateEncoder(build(EncoderConfig, recurrent_settings()), plain.words, plain.characters).eval()
    tagger = random_tagger(encoder)
    assert_same(_export(tagger, tmp_path / "out"), tagger, [*rows, *ODD], some=30)


def test_words_of_a_vector_file_that_are_not_trained(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    words = ["leeds", "porto", "0000", "zebra", "flew"]
    vectors.write_text("".join(f"{w} {i}.5 -{i} 2 1\n" for i, w in enumerate(words)))
    settings = recurrent_settings() | {"words": {"vectors": str(vectors)}}
    tagger = random_tagger(random_encoder(settings, make_corpus("news").train))
    made = _export(tagger, tmp_path / "out")
    rows = [Sentence.of(["Zebra", "ZEBRA", "1999", "flew", "unseen", "zebra"] * 4)]
    assert_same(made, tagger, rows, some=1)


def test_texts_and_the_cache_of_word_forms(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    tagger = random_tagger(random_encoder(recurrent_settings(), make_corpus("news").train))
    made = _export(tagger, tmp_path / "out")
    texts = [
        "Okafor flew from Leeds. In Graz, Ruiz met Ada!\n\nNobody in Lima",
        "",
        " \n",
        "Ünïcödé 東京 👩‍👩‍👧",
    ]
    before = tagger(texts)

    def same(mine: list[Entity], theirs: list[Entity], within: float) -> bool:
        assert [e.score for e in mine] == pytest.approx([e.score for e in theirs], abs=within)
        return [e.to_dict() | {"score": 0} for e in mine] == [e.to_dict() | {"score": 0} for e in theirs]

    for _ in range(2):
        assert all(same(mine, theirs, 1e-4) for mine, theirs in zip(made(texts), before, strict=True))
        made.reader.cache_bytes = 1  # every batch now starts with an empty cache
    assert same(made(texts[0]), made(texts)[0], 1e-9)
    assert made("") == []
    many = [Sentence.of([f"w{i}x{j}" for j in range(40)]) for i in range(60)]
    made.reader.cache_bytes = 2 << 20
    largest = 0
    for row in range(0, len(many), 4):
        made.tag_sentences(many[row : row + 4])
        largest = max(largest, made.reader.word_cache.bytes + made.reader._gates.nbytes)
    assert 1 << 20 < largest < 5 << 20
    assert_same(made, tagger, many)


def test_an_export_that_differs_is_refused(
    make_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nershift.errors import SetupError
    from nershift.tagger.onnx import graph as onnx_graph

    tagger = random_tagger(random_encoder(recurrent_settings(), make_corpus("news").train))
    right = onnx_graph.sentences_model

    def wrong(encoder: RecurrentEncoder, project: torch.nn.Linear) -> Any:
        other = torch.nn.Linear(project.in_features, project.out_features)
        other.load_state_dict(project.state_dict())
        with torch.no_grad():
            other.bias[0] += 0.5
        return right(encoder, other)

    monkeypatch.setattr(onnx_graph, "sentences_model", wrong)
    with pytest.raises(SetupError, match=r"scores differ from torch's by 0\.5") as error:
        export_onnx(tagger, tmp_path / "out")
    assert error.value.fix == "report this"
    assert list(tmp_path.iterdir()) == []
    assert export_onnx(tagger, tmp_path / "out", tolerance=1.0).largest_difference == pytest.approx(0.5, abs=1e-3)
    monkeypatch.setattr(onnx_graph, "sentences_model", right)
    with pytest.raises(SetupError, match="scores differ from torch's") as error:
        export_onnx(tagger, tmp_path / "strict", tolerance=0.0)
    assert "allow more with --tolerance" in error.value.fix
