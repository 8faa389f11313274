from pathlib import Path

import pytest

from nershift.data.formats import read_corpus, read_sentences
from nershift.data.formats.ace2005 import read_document, read_genres
from nershift.data.formats.align import CharSpan
from nershift.data.problems import Problems
from nershift.errors import ConfigError, DataError

BODY = (
    "Orders went out today to deploy 17,000 U.S. Army\nsoldiers in the Persian Gulf region.\n"
    "AT&amp;T was there. An anti-American blog.\n"
)
SGM = f"<DOC>\n<DOCID> X_1 </DOCID>\n<BODY>\n<TEXT>\n{BODY}</TEXT>\n</BODY>\n</DOC>\n"
STRIPPED = SGM
for tag in ("<DOC>", "<DOCID>", "</DOCID>", "<BODY>", "<TEXT>", "</TEXT>", "</BODY>", "</DOC>"):
    STRIPPED = STRIPPED.replace(tag, "")
MENTIONS = [
    ("PER", "17,000 U.S. Army\nsoldiers", "soldiers"),
    ("GPE", "U.S.", "U.S."),
    ("ORG", "U.S. Army", "Army"),
    ("LOC", "the Persian Gulf region", "region"),
    ("LOC", "Persian Gulf", "Persian Gulf"),
    ("ORG", "AT&amp;T", "AT&amp;T"),
    ("GPE", "American", "American"),
]


def charseq(text: str) -> str:
    start = STRIPPED.index(text)
    return f'<charseq START="{start}" END="{start + len(text) - 1}">{text}</charseq>'


def apf(mentions: list[tuple[str, str, str]]) -> str:
    entities = "".join(
        f'<entity ID="E{i}" TYPE="{t}"><entity_mention ID="E{i}-1"><extent>{charseq(e)}</extent>'
        f"<head>{charseq(h)}</head></entity_mention></entity>"
        for i, (t, e, h) in enumerate(mentions)
    )
    return f'<?xml version="1.0"?><source_file><document>{entities}</document></source_file>'


def put(folder: Path, xml: str | None = None, name: str = "X_1") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.sgm").write_text(SGM)
    (folder / f"{name}.apf.xml").write_text(xml or apf(MENTIONS))
    return folder / f"{name}.sgm"


def test_innermost_extents_as_in_the_paper(tmp_path: Path) -> None:
    sentences, nested = read_document(put(tmp_path), Problems())
    found = [[(s.mention(x), x.label) for x in s.spans] for s in sentences]
    assert found == [[("U.S.", "GPE"), ("Persian Gulf", "LOC")], [("AT&T", "ORG")], [("American", "GPE")]]
    assert nested == 3
    assert sentences[0].text == "Orders went out today to deploy 17,000 U.S. Army soldiers in the Persian Gulf region."


def test_heads(tmp_path: Path) -> None:
    sentences, nested = read_document(put(tmp_path), Problems(), part="head")
    assert [x.label for x in sentences[0].spans] == ["GPE", "ORG", "PER", "LOC", "LOC"]
    assert nested == 0


def test_genres_are_corpora_and_the_last_stage_of_annotation_counts(tmp_path: Path) -> None:
    for genre in ("nw", "wl"):
        put(tmp_path / genre / "timex2norm")
        put(tmp_path / genre / "fp1", apf(MENTIONS[:1]))
    reading = read_genres(tmp_path, Problems())
    assert set(reading.corpora) == {"nw", "wl"}
    assert reading.nested == {"nw": 3, "wl": 3}
    assert reading.corpora["nw"].types == ("GPE", "LOC", "ORG")
    assert read_corpus(tmp_path, domain="wl").name == "ace2005_wl"
    assert len(read_corpus(tmp_path).train) == 2 * len(reading.corpora["nw"].train)
    assert len(read_sentences(tmp_path / "nw" / "timex2norm" / "X_1.apf.xml")) == 3
    with pytest.raises(ConfigError, match="no genre 'bc'"):
        read_corpus(tmp_path, domain="bc")


def test_eighty_ten_ten(tmp_path: Path) -> None:
    for i in range(10):
        put(tmp_path / "bc", name=f"X_{i}")
    corpus = read_genres(tmp_path, Problems()).corpora["bc"]
    assert [len(corpus.split(s)) for s in ("train", "dev", "test")] == [24, 3, 3]
    assert read_genres(tmp_path, Problems()).corpora["bc"].digest() == corpus.digest()


def test_misfits(tmp_path: Path) -> None:
    moved = apf(MENTIONS).replace(">AT&amp;T<", ">IBM<")
    far = apf(MENTIONS[1:2]).replace('END="', 'END="9')
    strange = apf([("XYZ", "U.S.", "U.S.")])
    for xml, found in ((moved, "quotes 'IBM'"), (far, "outside the text"), (strange, "type 'XYZ'")):
        sgm = put(tmp_path, xml)
        with pytest.raises(DataError, match=found) as caught:
            read_document(sgm, Problems())
        assert "X_1.apf.xml:E" in caught.value.place
        problems = Problems(repair=True)
        read_document(sgm, problems)
        assert problems.counts()["bad annotation"] >= 1
    put(tmp_path, "<broken")
    with pytest.raises(DataError, match="not well-formed"):
        read_document(tmp_path / "X_1.sgm", Problems())
    with pytest.raises(DataError, match="no .apf.xml".replace(".", r"\.")):
        read_genres(tmp_path / "nowhere", Problems())


def test_innermost_of_crossing_spans() -> None:
    from nershift.data.formats.ace2005 import innermost

    spans = [CharSpan(0, 10, "A"), CharSpan(2, 5, "B"), CharSpan(4, 9, "C"), CharSpan(12, 14, "D")]
    assert [s.label for s in innermost(spans)] == ["B", "D"]


def test_all_mentions_where_nested_ones_are_asked_for(tmp_path: Path) -> None:
    sentences = read_sentences(put(tmp_path, apf([*MENTIONS, MENTIONS[1]])), nested=True)
    assert [s.label for s in sentences[0].spans] == ["PER", "GPE", "ORG", "LOC", "LOC"]
    assert all(s.nested for s in sentences)
