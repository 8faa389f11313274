from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from nershift.data.token_bound import most_tokens
from nershift.tagger.entities import split_texts

SIGNS = st.sampled_from(
    [*"aZß9٣ \n.,:/'’-‐!?()", "'s", "U.S.", "1,2", "語", "。", "\u0301", "\u200d", "😀", "\U00020000"]
)


def tokens(text: str) -> int:
    return sum(map(len, split_texts([text])[0]))


@hypothesis.settings(max_examples=300, deadline=None, derandomize=True)
@hypothesis.given(st.lists(SIGNS, max_size=40).map("".join) | st.text(max_size=60))
def test_no_text_has_more(text: str) -> None:
    assert most_tokens(text) >= tokens(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "The committee met in Leeds on 3 May (1998), at 12:30.",
        "." * 500,
        "x" * 500,
        "語" * 500,
        "9,999.5 " * 50,
    ],
)
def test_of_plain_text_it_is_the_number(text: str) -> None:
    assert most_tokens(text) == tokens(text)
