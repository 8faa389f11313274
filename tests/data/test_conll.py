import gzip
from pathlib import Path

import pytest

from nershift.data.formats import read_sentences, write_sentences
from nershift.data.problems import Problems
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError


def read(tmp_path: Path, text: str | bytes, **options: object) -> list[Sentence]:
    path = tmp_path / "a.conll"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_sentences(path, **options)  # type: ignore[arg-type]


def spans(sentences: list[Sentence]) -> list[list[tuple[int, int, str]]]:
    return [[(s.start, s.end, s.label) for s in x.spans] for x in sentences]


def test_the_last_sentence_needs_no_blank_line(tmp_path: Path) -> None:
    made = read(tmp_path, "Rome\tB-LOC\n\nAda\tB-PER\nLovelace\tI-PER")
    assert [s.tokens for s in made] == [("Rome",), ("Ada", "Lovelace")]
    assert [s.place.rpartition(":")[2] for s in made] == ["1", "3"]


def test_windows_line_ends_byte_order_mark_and_gzip(tmp_path: Path) -> None:
    text = "\ufeffRome\tB-LOC\r\n\r\nAda\tB-PER\r\n"
    assert [s.tokens for s in read(tmp_path, text)] == [("Rome",), ("Ada",)]
    assert [s.tokens for s in read(tmp_path, text.replace("\n", "\r\n"))] == [("Rome",), ("Ada",)]  # converted twice
    packed = tmp_path / "b.conll.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert spans(read_sentences(packed)) == [[(0, 1, "LOC")], [(0, 1, "PER")]]


def test_columns_by_spaces_document_borders_and_comments(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\n# sent_id = 3\nEU NNP I-NP I-ORG\n# NNP I-NP O\n. . O O\n\n# done\n"
    made = read(tmp_path, text)
    assert [s.tokens for s in made] == [("EU", "#", ".")]
    assert spans(made) == [[(0, 1, "ORG")]]


def test_a_border_without_a_blank_line_after_it(tmp_path: Path) -> None:
    assert [s.tokens for s in read(tmp_path, "-DOCSTART- -DOCSTART- O\nDe Art O\n")] == [("De",)]


def test_tokens_with_spaces_between_tabs(tmp_path: Path) -> None:
    assert read(tmp_path, "New York\tB-LOC\n")[0].tokens == ("New York",)


def test_chosen_columns(tmp_path: Path) -> None:
    made = read(tmp_path, "1\tB-LOC\tRome\n2\tO\tfell\n", token_column=2, tag_column=1)
    assert made[0].tokens == ("Rome", "fell")
    assert spans(made) == [[(0, 1, "LOC")]]
    with pytest.raises(DataError, match="column 5"):
        read(tmp_path, "1\tO\n", tag_column=5)


SAME = [(0, 2, "PER"), (2, 3, "PER"), (4, 5, "LOC")]


@pytest.mark.parametrize(
    "tags",
    [
        "B-PER I-PER B-PER O B-LOC",
        "I-PER I-PER B-PER O I-LOC",
        "B-PER E-PER S-PER O S-LOC",
        "B-PER L-PER U-PER O U-LOC",
    ],
)
def test_schemes_are_found_by_counting(tags: str, tmp_path: Path) -> None:
    text = "".join(f"w{i}\t{tag}\n" for i, tag in enumerate(tags.split()))
    assert spans(read(tmp_path, text)) == [SAME]


def test_bmes(tmp_path: Path) -> None:
    assert spans(read(tmp_path, "a\tB-X\nb\tM-X\nc\tE-X\nd\tS-X\n")) == [[(0, 3, "X"), (3, 4, "X")]]


def test_a_named_scheme_is_enforced(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.conll:1: I-PER on token 'a' starts a sentence"):
        read(tmp_path, "a\tI-PER\n", scheme="BIO")


GOOD = "Rome\tB-LOC\nfell\tO\n\n"
MIXED = "".join("a\tI-X\nb\tO\n\nc\tB-X\nd\tO\n\n" for _ in range(30))
BAD = [  # text, kind, line, a part of what was found, what is read after the repair
    (
        GOOD + "a\tO\nb\tI-PER\nc\tI-PER\n",
        "malformed tag",
        5,
        "I-PER on token 'b' follows O",
        [(1, 3, "PER")],
    ),
    (GOOD + "a\tB-PER\nb\tI-LOC\n", "malformed tag", 5, "follows B-PER", [(0, 1, "PER"), (1, 2, "LOC")]),
    ("b\tB-X\nb\tE-X\n\na\tB-X\n", "malformed tag", 4, "the sentence ends after B-X", [(0, 1, "X")]),
    (GOOD + "a\tO\nb\n", "missing column", 5, "1 column", []),
    (GOOD + "a\tNN\tO\n", "extra column", 4, "3 columns", []),
    (GOOD + "\tO\nb\tO\n", "empty token", 4, "empty", []),
    (GOOD + "a\tX-PER\n", "unknown tag", 4, "'X-PER'", [(0, 1, "PER")]),
    (GOOD + "a\tPER\nb\tPER\n", "unknown tag", 4, "'PER'", [(0, 2, "PER")]),
    (GOOD + "a\to\n", "unknown tag", 4, "'o'", []),
    ("", "empty file", 1, "no content", None),
    (GOOD.encode() + b"caf\xe9\tO\n", "encoding", 4, "0xe9", []),
    (MIXED, "mixed schemes", 1, "begin with I- (IOB1) 30, with B- (BIO) 30. 30 tags break BIO", None),
    (
        GOOD + "a\tS-X\n\nb\tU-X\nc\tI-X\n",
        "mixed schemes",
        2,
        "with E- or S- (BIOES) 1, with L- or U- (BILOU) 1. 3 tags break BIOES",
        None,
    ),
    (
        "a\tB-X\nb\tI-X\nc\tO\nd\tS-Y\n",
        "mixed schemes",
        3,
        "with S- (BIOES) 1, entities that end without E- (BIO) 1",
        [(0, 2, "X"), (3, 4, "Y")],
    ),
    (GOOD + "a\tO\rb\tB-X\n", "line end", 4, "a carriage return inside a line", [(1, 2, "X")]),
]


@pytest.mark.parametrize(("text", "kind", "line", "found", "after"), BAD, ids=lambda x: str(x)[:20])
def test_bad_input(
    text: str | bytes, kind: str, line: int, found: str, after: list[object] | None, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    error = caught.value
    assert error.place == f"{tmp_path / 'a.conll'}:{line}"
    assert found in error.found
    assert error.expected
    assert error.fix
    problems = Problems(repair=True)
    made = read(tmp_path, text, problems=problems)
    assert problems.counts() == {kind: 1}
    assert problems.found[0].repair
    if after is not None:
        assert spans(made)[-1] == after


def test_few_slips_in_a_long_file_are_named_one_by_one(tmp_path: Path) -> None:
    problems = Problems(repair=True)
    read(tmp_path, GOOD * 300 + "x\tO\ny\tI-LOC\n\n" * 3, problems=problems)
    assert problems.counts() == {"malformed tag": 3}
    assert [int(p.place.rpartition(":")[2]) for p in problems] == [902, 905, 908]


def test_broken_gzip_and_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "a.conll.gz"
    path.write_bytes(b"plain")
    with pytest.raises(DataError, match="cannot be unpacked"):
        read_sentences(path)
    path.write_bytes(gzip.compress(GOOD.encode())[:-9])
    with pytest.raises(DataError, match="cannot be unpacked"):
        read_sentences(path)
    with pytest.raises(DataError, match="no such file"):
        read_sentences(tmp_path / "b.conll")


def test_written_schemes(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    sentence = Sentence.of(["a", "b", "c"], [Span(0, 2, "X"), Span(2, 3, "X")])
    for scheme, tags in {"BIO": "BIB", "IOB1": "IIB", "BIOES": "BES", "BILOU": "BLU"}.items():
        write_sentences(path, [sentence], scheme=scheme)  # type: ignore[arg-type]
        assert path.read_text() == "".join(f"{t}\t{p}-X\n" for t, p in zip("abc", tags, strict=True)) + "\n"
