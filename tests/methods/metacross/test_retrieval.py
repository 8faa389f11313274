"""Blocked search against a full sort of all similarities."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nershift.errors import SetupError
from nershift.methods.metacross.retrieval import distinct, top_k, unit


def by_sorting(queries: torch.Tensor, keys: torch.Tensor, k: int, banned: torch.Tensor | None) -> torch.Tensor:
    scores = queries.double() @ keys.double().T
    for row, ban in enumerate([] if banned is None else banned.tolist()):
        if ban >= 0:
            scores[row, ban] = float("-inf")
    return scores.sort(1, descending=True).values[:, :k]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12), st.integers(3, 40), st.integers(1, 2), st.integers(1, 90), st.integers(0, 999),
    st.booleans(),
)  # fmt: skip
def test_blocks_of_any_size_find_the_same(n: int, keys: int, k: int, block: int, seed: int, ban: bool) -> None:
    torch.manual_seed(seed)
    index, queries = unit(torch.randn(keys, 5)), unit(torch.randn(n, 5))
    banned = torch.randint(-1, keys, (n,)) if ban else None
    rows, scores = top_k(queries, index, k, banned, block)
    assert rows.shape == scores.shape == (n, k)
    torch.testing.assert_close(scores.double(), by_sorting(queries, index, k, banned), atol=1e-6, rtol=0)
    torch.testing.assert_close((queries[:, None] * index[rows]).sum(-1), scores, atol=1e-6, rtol=0)
    assert all(len(set(found)) == k for found in rows.tolist())
    if banned is not None:
        assert not (rows == banned[:, None]).any()


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 40), st.integers(1, 3), st.integers(1, 90), st.integers(0, 999))
def test_sentences_among_themselves(n: int, k: int, block: int, seed: int) -> None:
    """Half of the products, the same neighbours, never oneself."""
    torch.manual_seed(seed)
    vectors, own = unit(torch.randn(n, 6)), torch.arange(n)
    rows, scores = top_k(vectors, vectors, k, own, block)
    torch.testing.assert_close(scores.double(), by_sorting(vectors, vectors, k, own), atol=1e-6, rtol=0)
    assert not (rows == own[:, None]).any()
    torch.testing.assert_close((vectors[:, None] * vectors[rows]).sum(-1), scores, atol=1e-6, rtol=0)


def test_duplicates_take_one_place() -> None:
    texts = [["a"], ["b", "c"], ["a"], ["b"], ["b", "c"]]
    first, number = distinct(texts)
    assert first == [0, 1, 3]
    assert number == [0, 1, 0, 2, 1]
    assert [texts[first[n]] for n in number] == texts


def test_centring_and_rows_without_direction() -> None:
    vectors = torch.tensor([[3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    assert unit(vectors).norm(dim=1).tolist() == pytest.approx([1, 0, 1])
    moved = unit(vectors, vectors.mean(0))
    assert moved.norm(dim=1).tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize(("k", "ban"), [(0, False), (4, False), (3, True)])
def test_more_neighbours_than_there_are(k: int, ban: bool) -> None:
    vectors = unit(torch.randn(3, 4))
    with pytest.raises(SetupError, match="neighbours were asked"):
        top_k(vectors, vectors, k, torch.arange(3) if ban else None)


def test_memory_does_not_grow_with_the_index() -> None:
    """The largest table of similarities is that of one block."""
    made = []

    class Watched(torch.Tensor):
        def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
            made.append(len(self) * other.shape[1])
            return torch.Tensor.__matmul__(self.as_subclass(torch.Tensor), other.as_subclass(torch.Tensor))

    keys = unit(torch.randn(5000, 4))
    top_k(unit(torch.randn(300, 4)).as_subclass(Watched), keys, 2, block=10_000)
    assert max(made) <= 10_000
    assert sum(made) == 300 * 5000


_LARGE = """
import resource, torch
from nershift.methods.metacross.retrieval import top_k, unit
torch.set_num_threads(1)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
keys, queries = unit(torch.randn(400_000, 16)), unit(torch.randn(400, 16))
top_k(queries[:50], keys[:50_000], 2)  # threads and buffers that any product needs
before = peak()
rows, _ = top_k(queries, keys, 2)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is counted in other units")
def test_a_large_index_needs_no_large_table() -> None:
    """All similarities of this search would take 610 MiB."""
    source = Path(__file__).resolve().parents[2] / "src"
    path = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _LARGE], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 100
