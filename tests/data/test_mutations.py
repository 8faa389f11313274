"""Files that others damaged are read right or refused with a message; harmless changes lose nothing."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mutated import SENTENCES, Example, damaged, examples, inside

from nershift.data.formats import FORMATS, read_sentences, write_sentences
from nershift.data.problems import Problems
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.errors import NershiftError

TEXTS = ("conll", "jsonl", "doccano", "argilla", "zipped", "answers", "raw", "text", "brat", "ace")
NAMES = (*TEXTS, "docbin", "datasets")
MANY = 120  # mutations of a format
BOM = b"\xef\xbb\xbf"


def example(name: str, folder: Path) -> Example:
    for optional, package, suffix in (("docbin", "spacy", ".spacy"), ("datasets", "datasets", "")):
        if name == optional:
            pytest.importorskip(package)
            path = folder / (name + suffix)
            write_sentences(path, SENTENCES, name)
            return Example(name, path, sorted(f for f in [path, *path.rglob("*")] if f.is_file()))
    return next(e for e in examples(folder) if e.path.name.partition(".")[0] == name)


@pytest.fixture(autouse=True)
def no_hanging() -> Iterator[None]:
    """A reader that never ends fails its test."""

    def stop(*_: object) -> None:
        raise AssertionError("reading does not end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def read(path: Path, name: str, problems: Problems) -> list[Sentence] | None:
    """The sentences, looked at; None where the reader refused in few words."""
    try:
        sentences = read_sentences(path, name, problems)
    except NershiftError as error:
        return None if len(str(error)) < 10_000 else []
    for sentence in sentences:
        assert all(isinstance(token, str) and token for token in sentence.tokens)
        " ".join(sentence.tokens).encode()
    return sentences


def read_damaged(made: Example, seeds: range) -> None:
    originals = {file: file.read_bytes() for file in made.files}
    for seed in seeds:
        rng = random.Random(seed)
        file = rng.choice(made.files)

        def change(data: bytes, rng: random.Random = rng) -> bytes:
            return damaged(data, rng)

        packed = rng.random() < 0.5
        file.write_bytes((change if packed else inside(file.suffix, change))(originals[file]))
        read(made.path, made.name, Problems())
        read(made.path, made.name, Problems(repair=True))
        file.write_bytes(originals[file])


def test_every_format_is_mutated_here(tmp_path: Path) -> None:
    assert {e.name for e in examples(tmp_path)} | {"docbin", "datasets"} == set(FORMATS)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "datasets"])
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    read_damaged(example(name, tmp_path), range(MANY))


def test_damaged_datasets_do_not_end_the_process(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    code = "import sys, pathlib, test_mutations as t; t.read_damaged_datasets(pathlib.Path(sys.argv[1]))"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]


def read_damaged_datasets(folder: Path) -> None:
    """In a process of its own. Wrong offsets of strings, one by one, are what once ended it."""
    made = example("datasets", folder)
    read_damaged(made, range(MANY // 2))
    (arrow,) = (file for file in made.files if file.suffix == ".arrow")
    data = arrow.read_bytes()
    for at in range(len(data) - 1, 0, -11):
        arrow.write_bytes(data[:at] + bytes([data[at] ^ 0x81]) + data[at + 1 :])
        read(made.path, made.name, Problems(repair=True))


def plain(sentences: list[Sentence] | None) -> object:
    return None if sentences is None else [(s.tokens, s.spans) for s in sentences]


HARMLESS: dict[str, Callable[[bytes], bytes]] = {
    "line ends of Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "line ends converted twice": lambda data: data.replace(b"\n", b"\r\r\n"),
    "line ends of old Macs": lambda data: data.replace(b"\n", b"\r"),
    "byte order mark": lambda data: BOM + data,
    "no end of the last line": lambda data: data.rstrip(b"\n"),
    "blank lines at the end": lambda data: data + b"\n\n\n",
    "blank lines at the start": lambda data: b"\n\n" + data,
    "a byte order mark on every line": lambda data: BOM + data.replace(b"\n", b"\n" + BOM),
    "blanks at the ends of lines": lambda data: data.replace(b"\n", b"  \n"),
}
_ADD = {"line ends converted twice", "blank lines at the start", "blanks at the ends of lines"}
_ADD |= {"a byte order mark on every line"}
SHIFTS = {"ace": _ADD, "brat": {*_ADD, "line ends of Windows"}}  # they count characters: what adds some is another file


@pytest.mark.parametrize(
    ("name", "how"), [(name, how) for name in TEXTS for how in HARMLESS if how not in SHIFTS.get(name, ())]
)
def test_harmless_changes_lose_nothing(name: str, how: str, tmp_path: Path) -> None:
    made = example(name, tmp_path)
    expected = plain(read(made.path, made.name, Problems()))
    assert expected
    for file in made.files:
        file.write_bytes(inside(file.suffix, HARMLESS[how])(file.read_bytes()))
    assert plain(read(made.path, made.name, Problems())) == expected
    if name == "raw":
        assert plain(list(RawText(made.path))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_what_is_appended_is_read(name: str, tmp_path: Path) -> None:
    """``cat a b``, where ``b`` may have a byte order mark, is both, or is refused; never ``a`` alone."""
    made = example(name, tmp_path)
    once = read(made.path, made.name, Problems())
    assert once
    for mark in (b"", BOM):
        for file in made.files:
            if file.suffix in (".ann", ".xml", ".sgm"):
                return  # annotations of one text
            data = file.read_bytes()
            text = mark and file.suffix in (".conll", ".jsonl", ".raw", ".text", ".gz")
            file.write_bytes(data + inside(file.suffix, lambda part: BOM + part)(data) if text else data * 2)
        found = read(made.path, made.name, Problems(repair=True))
        assert plain(found) in (plain([*once, *once]), None)
        if name == "datasets":
            assert found is None
        for file in made.files:
            data = file.read_bytes()
            file.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("a.apf.xml", 'START="6"', 'START="six"'),
        ("a.apf.xml", 'START="6"', f'START="{"9" * 5_000}"'),
        ("a.apf.xml", '"1.0"', '"1.0" encoding="nonsense"'),
        ("a.apf.xml", ">Ada Lovelace<", f">Ada &amp;#{'9' * 5_000};<"),
        ("a.sgm", "Ada", "&#" + "9" * 5_000 + ";"),
    ],
)
def test_odd_annotation_of_ace(file: str, old: str, new: str, tmp_path: Path) -> None:
    made = example("ace", tmp_path)
    (path,) = (f for f in made.files if f.name == file)
    path.write_text(path.read_text().replace(old, new))
    assert read(made.path, made.name, Problems()) is None


def test_an_escape_that_is_no_character_moves_nothing(tmp_path: Path) -> None:
    made = example("ace", tmp_path)
    sgm = made.files[0]
    sgm.write_text(sgm.read_text().replace("left", "&#1;"))  # four characters in the annotation, none in HTML
    (first, *_) = read_sentences(made.path, made.name)
    assert [first.mention(span) for span in first.spans] == ["Ada Lovelace", "London"]


def test_wide_characters_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    for encoding in ("utf-16", "utf-32"):
        path.write_bytes("Rome\tB-LOC\n".encode(encoding))
        with pytest.raises(NershiftError, match=f"of {encoding.upper()}(.|\n)*iconv -f {encoding}"):
            read_sentences(path)
        assert read_sentences(path, problems=Problems(repair=True))[0].tokens == ("Rome",)


def test_a_packed_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "a.conll.gz"
    bomb.write_bytes(gzip.compress(b"Rome\tB-LOC\n\n" + b"# nothing but comments " * 100_000))
    assert len(read_sentences(bomb)) == 1
    monkeypatch.setenv("NERSHIFT_UNPACKED_MB", "2")
    with pytest.raises(NershiftError, match=r"more than 2 MB come out .*\n.*\n.*NERSHIFT_UNPACKED_MB"):
        read_sentences(bomb)
    monkeypatch.setenv("NERSHIFT_UNPACKED_MB", "lots")
    with pytest.raises(NershiftError, match="NERSHIFT_UNPACKED_MB: found 'lots'"):
        read_sentences(bomb)


def test_raw_text_may_be_long_but_not_denser_than_text_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NERSHIFT_UNPACKED_MB", "1")
    rng = random.Random(0)
    words = [f"{' '.join(str(rng.random()) for _ in range(40))}\n" for _ in range(2_000)]
    long, bomb = tmp_path / "long.raw.gz", tmp_path / "bomb.raw.gz"
    long.write_bytes(gzip.compress("".join(words).encode()))
    assert len(RawText(long)) == 2_000
    bomb.write_bytes(gzip.compress(b"x " * 1_000_000 + b"\n"))
    with pytest.raises(NershiftError, match="come out of this compressed file"):
        RawText(bomb)


def test_a_docbin_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    pytest.importorskip("spacy")
    monkeypatch.setenv("NERSHIFT_UNPACKED_MB", "2")
    path = tmp_path / "a.spacy"
    path.write_bytes(zlib.compress(bytes(5_000_000)))
    with pytest.raises(NershiftError, match="more than 2 MB"):
        read_sentences(path)
