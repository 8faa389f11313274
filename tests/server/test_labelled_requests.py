"""Requests with labels: tokens with token spans, the earlier form of these, and text with characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_serve_app import error

from nershift.data.formats import read_sentences

TEXT = "Ada Novak left.  “Leeds” is far, 🦉 Dr. Who said!\nNobody in Lima spoke."
ENTITIES = [(0, 9, "person"), (18, 23, "place"), (59, 63, "place")]


def exported(client: Any, tmp_path: Path, *sentences: dict[str, Any]) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """What the server made of the sentences, by exporting them."""
    made = client.post("/export", json={"sentences": sentences, "format": "jsonl"})
    assert made.status_code == 200, made.text
    path = tmp_path / "labels.jsonl"
    path.write_bytes(made.content)
    return [(" ".join(s.tokens), [(x.start, x.end, x.label) for x in s.spans]) for s in read_sentences(path)]


def by_characters(entities: list[tuple[int, int, str]]) -> list[dict[str, Any]]:
    return [{"start": a, "end": b, "label": c} for a, b, c in entities]


def test_tokens_with_token_spans_or_the_earlier_names(client: Any, tmp_path: Path) -> None:
    tokens = ["Ada", "Novak", "left", "Leeds"]
    now = [{"token_start": 0, "token_end": 2, "label": "person"}]
    for entities in (now, by_characters([(0, 2, "person")]), [{**now[0], "start": 0, "end": 9, "text": "Ada Novak"}]):
        found = exported(client, tmp_path, {"tokens": tokens, "entities": entities})
        assert found == [("Ada Novak left Leeds", [(0, 2, "person")])]


def test_text_with_characters_is_split_as_for_tagging(client: Any, tmp_path: Path) -> None:
    found = exported(client, tmp_path, {"text": TEXT, "entities": by_characters(ENTITIES)})
    assert found == [
        ("Ada Novak left .", [(0, 2, "person")]),
        ("“ Leeds ” is far , 🦉 Dr . Who said !", [(1, 2, "place")]),
        ("Nobody in Lima spoke .", [(2, 3, "place")]),
    ]


def test_an_answer_can_be_sent_back(client: Any, tmp_path: Path) -> None:
    text = "Okafor flew from Leeds to Porto ."
    for kind, given in (("texts", text), ("tokens", text.split())):
        (result,) = client.post("/tag", json={kind: [given]}).json()["results"]
        sentence = {"text" if kind == "texts" else kind: given, "entities": result["entities"]}
        found = exported(client, tmp_path, sentence)
        assert found == [(text, [(e["token_start"], e["token_end"], e["label"]) for e in result["entities"]])]


@pytest.mark.parametrize(
    ("sentence", "code", "why"),
    [
        (
            {"text": "Adas", "entities": by_characters([(0, 3, "x")])},
            "unusable",
            "entity 0: span 0:3 (x) 'Ada' has a",
        ),
        ({"text": "Ada", "entities": by_characters([(0, 4, "x")])}, "unusable", "outside a text of 3"),
        ({"text": "a b", "entities": by_characters([(0, 3, "x"), (2, 3, "y")])}, "unusable", "overlaps"),
        (
            {"text": "🦉 Ada", "entities": [{"start": 3, "end": 6, "label": "x", "text": "Ada"}]},
            "unusable",
            "the text has 'da' at 3:6",
        ),
        ({"text": "a " * 2_001}, "too_long", "at most 2000"),
        ({"text": "a\n" * 1_001}, "too_long", "more than 1000 sentences"),
        ({"text": "Ada", "tokens": ["Ada"]}, "invalid", "tokens"),
        ({"text": "Ada", "entities": [{"token_start": 0, "token_end": 1, "label": "x"}]}, "invalid", "start"),
        ({"tokens": ["Ada"], "entities": [{"label": "x"}]}, "invalid", "token_start and token_end"),
        ({"tokens": ["Ada"], "entities": [{"token_start": 0, "label": "x"}]}, "invalid", "token_start and token_end"),
    ],
)
def test_what_does_not_fit_is_told(client: Any, sentence: dict[str, Any], code: str, why: str) -> None:
    assert why in error(client.post("/export", json={"sentences": [sentence], "format": "jsonl"}), 422, code)


def test_all_labelled_text_together_is_bounded(client: Any) -> None:
    sentences = [{"text": ("a " * 1_000 + "\n") * 40, "entities": by_characters([(0, 1, "x")])}] * 3
    for path, more in (("/export", {"format": "jsonl"}), ("/adapt", {})):
        answer = client.post(path, json={"sentences": sentences, **more})
        assert "more than 100000 tokens" in error(answer, 413, "too_long")
