from __future__ import annotations

import os

import pytest
import torch


@pytest.fixture
def triton_device() -> str:
    """The GPU, or the CPU with Triton's interpreter."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("no GPU; set TRITON_INTERPRET=1 to run the kernel in Triton's interpreter")
    return "cpu"
