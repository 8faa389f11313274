from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nershift.text.subwords import windows


@given(st.lists(st.integers(1, 9), min_size=1, max_size=80), st.integers(1, 20), st.integers(0, 25))
def test_each_token_once_and_every_window_fits(lengths: list[int], room: int, overlap: int) -> None:
    cut = windows(lengths, room, overlap)
    emitted = [i for w in cut for i in range(w.emit_start, w.emit_end)]
    assert emitted == list(range(len(lengths)))
    for w in cut:
        assert w.start <= w.emit_start <= w.emit_end <= w.end
        assert sum(lengths[w.start : w.end]) <= room or w.end - w.start == 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(0, 10))
def test_what_fits_is_one_window(lengths: list[int], overlap: int) -> None:
    (only,) = windows(lengths, sum(lengths), overlap)
    assert (only.start, only.end, only.emit_start, only.emit_end) == (0, len(lengths), 0, len(lengths))


@given(st.integers(7, 200), st.integers(0, 3))
def test_inner_tokens_keep_half_of_the_overlap_as_context(length: int, half: int) -> None:
    cut = windows([1] * length, room=7, overlap=2 * half)
    for w in cut:
        assert w.emit_start == 0 or w.emit_start - w.start >= half
        assert w.emit_end == length or w.end - w.emit_end >= half


def test_a_word_longer_than_the_window_stands_alone() -> None:
    cut = windows([2, 50, 2], room=10, overlap=4)
    assert [(w.start, w.end) for w in cut if w.start <= 1 < w.end] == [(1, 2)]


def test_no_tokens() -> None:
    (only,) = windows([], 5, 2)
    assert (only.start, only.end) == (0, 0)
