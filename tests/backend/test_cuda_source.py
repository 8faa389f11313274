"""What the compiler of CUDA sources says when it cannot serve, and that it takes ours where it is at hand."""

from __future__ import annotations

import pytest

from nershift.backend import cuda_source
from nershift.methods.laner.fast import kernels


@pytest.fixture
def compiler() -> None:
    try:
        cuda_source._compiler()
    except OSError:
        pytest.skip("no libnvrtc")


def test_without_a_compiler_the_message_says_where_it_comes_from(monkeypatch) -> None:
    monkeypatch.setattr(cuda_source, "_names", lambda: iter(["libnothing.so.0"]))
    with pytest.raises(OSError, match="libnvrtc was not found; it comes with torch's builds for CUDA"):
        cuda_source.compiled("", {}, "sm_90")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("context", kernels.context_settings(100, 1, True)),
        ("context", kernels.context_settings(100, 2, False)),
        ("propagate", {"TAGS": 29, "PREFIX": 5}),
    ],
)
def test_our_sources_compile(compiler, name, settings) -> None:
    made = cuda_source.compiled(kernels.source(name), settings, "sm_90")
    assert made[1:4] == b"ELF"
    assert name.encode() in made


def test_an_error_in_a_source_is_told(compiler) -> None:
    with pytest.raises(RuntimeError, match=r"does not compile.*nowhere"):
        cuda_source.compiled('extern "C" __global__ void k() { nowhere = 1; }', {}, "sm_90")
