"""Weights and descriptions that no training writes: nothing is made of them, and little memory is taken."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.backend.allocation import TooLarge, at_most
from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError
from nershift.model_store import load_model
from nershift.run import transfer
from nershift.storage import load_tensors, save_tensors, tensor_sizes


@pytest.fixture(scope="module")
def run(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings: dict[str, Any] = {
        "device": "cpu",
        "encoder": {"words": {"size": 8}, "chars": {"filters": 8}, "recurrent": {"size": 8}},
        "train": {"updates": 2},
    }
    out = tmp_path_factory.mktemp("run") / "r"
    transfer("target_only", make_corpus("news", train=20), out=out, config=settings, quiet=True, report=False)
    return out


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A copy that its owner changed; there is no manifest to tell."""
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "manifest.json").unlink()
    load_model(tmp_path / "copy")
    return tmp_path / "copy"


def refused(folder: Path, found: str) -> None:
    with pytest.raises(CheckpointError, match=found) as told:
        load_model(folder)
    assert str(folder) in told.value.place
    assert told.value.fix


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers(folder: Path, value: float) -> None:
    tensors, meta = load_tensors(folder / "model.safetensors")
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    tensors[name][-1, -1] = value
    save_tensors(folder / "model.safetensors", tensors, meta)
    refused(folder, f"{name} has values that are no finite numbers")


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.uint8, torch.complex64])
def test_weights_of_another_kind(folder: Path, dtype: torch.dtype) -> None:
    tensors, meta = load_tensors(folder / "model.safetensors")
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    try:
        save_tensors(folder / "model.safetensors", tensors | {name: tensors[name].to(dtype)}, meta)
    except KeyError:
        pytest.skip("older safetensors write no complex numbers")
    refused(folder, f"{name} is of type torch")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_are_read(folder: Path, dtype: torch.dtype) -> None:
    tensors, meta = load_tensors(folder / "model.safetensors")
    stored = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}
    save_tensors(folder / "model.safetensors", stored, meta)
    assert {t.dtype for t in load_model(folder)[0].parameters()} == {torch.float32}


@pytest.mark.parametrize("temperature", [0, -1, "0", "NaN", "Infinity", None, "warm", [1]])
def test_temperatures_that_cannot_be(folder: Path, temperature: object) -> None:
    described = json.loads((folder / "model.json").read_text())
    described["heads"]["target"]["temperature"] = temperature
    (folder / "model.json").write_text(json.dumps(described))
    refused(folder, "something is missing or wrong")


HUGE = [
    ("recurrent", "size", 10**6),
    ("recurrent", "size", 10**18),
    ("recurrent", "layers", 10**9),
    ("words", "size", 10**12),
    ("words", "size", 2**70),
    ("chars", "filters", 10**10),
    ("chars", "size", 10**12),
    ("chars", "max_length", 10**13),
    ("chars", "widths", [10**12]),
]


@pytest.mark.parametrize(("block", "name", "value"), HUGE)
def test_sizes_that_the_weights_do_not_have(folder: Path, block: str, name: str, value: Any) -> None:
    described = json.loads((folder / "model.json").read_text())
    place = described["encoder"] if block == "words" else described["encoder"]["config"]
    place[block][name] = value
    (folder / "model.json").write_text(json.dumps(described))
    script = """
import resource, sys
from pathlib import Path
import nershift.run
from nershift.errors import CheckpointError
from nershift.model_store import load_model
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_model(Path(sys.argv[1]))
except CheckpointError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, error)
"""
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    megabytes, _, told = done.stdout.partition(" ")
    assert int(megabytes) < 200, told
    assert str(folder) in told


def test_huge_label_sets_take_no_table(folder: Path) -> None:
    """A CRF has a score for each pair of tags: they are counted before they are made."""
    described = json.loads((folder / "model.json").read_text())
    described["heads"]["target"]["types"] = [f"t{i}" for i in range(3_000)]
    described["heads"]["target"].pop("predicted_types", None)
    (folder / "model.json").write_text(json.dumps(described))
    refused(folder, "something is missing or wrong|do not fit")


def test_the_header_tells_sizes_and_only_it_is_read(folder: Path) -> None:
    tensors, _ = load_tensors(folder / "model.safetensors")
    assert tensor_sizes(folder / "model.safetensors") == {name: tensor.numel() for name, tensor in tensors.items()}


def test_a_header_of_more_than_the_file_holds(folder: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 64)
    refused(folder, "not a readable safetensors file")
    (folder / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    refused(folder, "not a readable safetensors file")


def test_new_tensors_are_counted_and_results_are_not() -> None:
    with at_most(5_000):
        a = torch.ones(40, 40)
        for _ in range(20):
            a = a @ a / 40
        with pytest.raises(TooLarge):
            torch.randn(1 << 30, 1 << 20)
    with at_most(5_000), pytest.raises(TooLarge):
        [torch.zeros(1_100) for _ in range(10)]
    with at_most(100_000), pytest.raises(TooLarge):  # very many tiny ones
        [torch.zeros(1) for _ in range(1_000)]
    with at_most(5_000), pytest.raises(TooLarge):
        torch.arange(1 << 50)
    assert torch.zeros(1 << 14).numel() == 1 << 14  # later ones are free
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20
