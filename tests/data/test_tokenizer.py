import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nershift.data.tokenizer import sentences, tokenize


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
        assert "".join(text[a:b] for a, b in ranges) == re.sub(r"\s", "", text)


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
