import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nershift.data import tokenizer
from nershift.data.builtin import BUILTIN_DOMAINS, builtin_corpus
from nershift.data.tokenizer import sentences, tokenize

# Stops as they were found before, in time quadratic in the length of a run of signs.
PLAIN_STOP = re.compile(r"""[.?!…]+["'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*""")
# What is repeated: each class of characters that the rules tell apart, and mixtures that make them begin and fail.
REPEATED = (
    *(".", "!?", "…", '"', "'", "’", "(", "[]", ")", " ", "\n", "\t\n", "a", "É", "1", "_", "-", "/", "\u0301"),
    *("\u200d", "北", "カ", "。", "」", "😀", "\ud83d", "\x00", "ก", "हि", "a.", "A. ", "1,", "a'", "a-", "'s"),
    *("etc. ", "?) ", '."', ".'", ".)]", ". \n", "a\u0301.", "a北", "。」", ".。", "(A. "),
)


def words(text: str, **options: bool) -> list[str]:
    return [text[a:b] for a, b in tokenize(text, **options)]


def test_words_numbers_and_signs() -> None:
    assert words("O'Neill's well-known U.S. trip, 1,000.5 km (at 12:30).") == [
        *("O'Neill", "'s", "well-known", "U.S.", "trip", ",", "1,000.5", "km", "(", "at", "12:30", ")", ".")
    ]


def test_chinese_and_japanese_characters_stand_alone() -> None:
    assert words("北京GDP增长3.5%カナ") == ["北", "京", "GDP", "增", "长", "3.5", "%", "カ", "ナ"]


def test_combining_signs_stay_with_their_letter() -> None:
    assert words("हिन्दी में cafe\u0301 नहीं।") == ["हिन्दी", "में", "cafe\u0301", "नहीं", "।"]


def test_split_hyphens() -> None:
    assert words("anti-American don't", split_hyphens=True) == ["anti", "-", "American", "don't"]


@given(st.text())
def test_only_white_space_is_lost(text: str) -> None:
    for split in (False, True):
        ranges = tokenize(text, split_hyphens=split)
        assert all(a < b for a, b in ranges)
        assert all(b <= c for (_, b), (c, _) in pairwise(ranges))
        assert "".join(text[a:b] for a, b in ranges) == re.sub(r"[\s\ufeff]", "", text)


@given(st.text(alphabet="aA.?! \n\"')1。北", max_size=60))
def test_sentences_lose_only_white_space(text: str) -> None:
    for wrapped in (False, True):
        ranges = sentences(text, wrapped=wrapped)
        parts = [text[a:b] for a, b in ranges]
        assert all(p == p.strip() and p for p in parts)
        assert all(b <= c for (_, b), (c, _) in pairwise(ranges))
        assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text)


def test_sentence_rules() -> None:
    def cut(text: str, **options: bool) -> list[str]:
        return [text[a:b] for a, b in sentences(text, **options)]

    assert cut("Dr. A. Smith of Acme Inc. left. He said no! Why? ok") == [
        "Dr. A. Smith of Acme Inc. left.",
        "He said no!",
        "Why? ok",
    ]
    assert cut('He said "Stop." Then left.') == ['He said "Stop."', "Then left."]
    assert cut("他来了。她走了！") == ["他来了。", "她走了！"]
    assert cut("one\ntwo\n\nthree") == ["one", "two", "three"]
    assert cut("one\ntwo\n\nthree", wrapped=True) == ["one\ntwo", "three"]
    assert cut(" \n ") == []


def cut_whole(text: str) -> list[tuple[int, int]]:
    return sentences(text) + sentences(text, wrapped=True)


@pytest.mark.parametrize("split", [tokenize, cut_whole])
def test_ten_times_the_text_takes_about_ten_times_the_work(split: Callable[[str], object]) -> None:
    """Work that grew with the square of the text would take a hundred times as long."""

    def work(text: str) -> float:
        began = time.process_time()
        split(text)
        return time.process_time() - began

    for unit in REPEATED:
        for size in (10**3, 10**4):
            short, long = (unit * size)[:size], (unit * 10 * size)[: 10 * size]
            # One slow moment of the machine must not count: of several tries the best.
            assert any(work(long) < 30 * max(work(short), 3e-4) for _ in range(5)), repr(unit)


@given(st.text(alphabet="aA.?!… \n\"')]1。」北", max_size=60))
def test_stops_are_those_of_the_plain_rule(text: str) -> None:
    plain = [stop.span() for stop in PLAIN_STOP.finditer(text)]
    assert [stop.span() for stop in tokenizer._STOP.finditer(text)] == plain


def test_running_text_is_cut_as_by_the_plain_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    corpora = (builtin_corpus(domain) for domain in BUILTIN_DOMAINS)
    texts = [" ".join(s.to_text()[0] for s in corpus.train[:300]) for corpus in corpora]
    texts.append('He said "Wait ..." and left... (No one!?) She asked: "Why?!" Dr. No, e.g., knew.\n他走了。"好！"')
    fast = [sentences(text) for text in texts]
    assert sum(map(len, fast)) > 1500
    monkeypatch.setattr(tokenizer, "_STOP", PLAIN_STOP)
    assert [sentences(text) for text in texts] == fast
