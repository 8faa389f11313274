"""Two processes give the weights of one with the joint batch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nershift.config import EncoderConfig
from nershift.storage import load_tensors
from nershift.training.processes import Processes, threads_for

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(folder: Path, processes: int) -> None:
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
        command += ["--master_port", str(_free_port())]
    command += [str(HERE / "joint_run.py"), str(folder), "sgd", str(processes)]
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    for processes in (1, 2):
        _run(tmp_path / str(processes), processes)
    one, two = (load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("1", "2"))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=0)
    logs = [
        [json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()] for name in ("1", "2")
    ]
    assert [e["phase"] for e in logs[0]] == ["train"] * 3 + ["train-2"] * 3
    assert [e["step"] for e in logs[0]] == [e["step"] for e in logs[1]] == [6, 12, 18] * 2
    assert [e["dev_f1"] for e in logs[0]] == pytest.approx([e["dev_f1"] for e in logs[1]])


def test_one_process_leaves_gradients_and_facts_alone() -> None:
    processes = Processes("cpu")
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.tensor([1.0, 2.0, 3.0])
    processes.average_gradients([parameter], 5)
    assert parameter.grad.tolist() == [1, 2, 3]
    assert processes.any_of(True, False) == [True, False]
    assert (processes.rank, processes.world, processes.main) == (0, 1, True)


def test_threads_of_an_encoder() -> None:
    assert threads_for(EncoderConfig(kind="recurrent")) == 1
    assert threads_for(EncoderConfig(kind="transformer")) == (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("asked", "variable", "inside"),
    [(1, None, 1), (0, None, 3), (8, None, 3), (1, "3", 3)],
    ids=["fewer", "as they are", "never more", "OMP_NUM_THREADS decides"],
)
def test_threads_are_set_for_a_run_and_given_back(
    monkeypatch: pytest.MonkeyPatch, asked: int, variable: str | None, inside: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with Processes("cpu", asked):
            assert torch.get_num_threads() == inside
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
