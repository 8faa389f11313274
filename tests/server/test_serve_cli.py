from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nershift.cli import app
from nershift.errors import CheckpointError, ConfigError

pytest.importorskip("uvicorn")


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The server as a process, and the first line it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from nershift.cli import main; main()", "serve", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    return process, process.stderr.readline()


def ask(port: int, path: str, token: str = "") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token:
        request.add_header("authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def test_elsewhere_than_loopback_a_token_is_made_up(small_model: Path, tmp_path: Path) -> None:
    process, said = start(
        "--model", str(small_model), "--store", str(tmp_path), "--host", "0.0.0.0", "--port", "0", "--quiet"
    )
    try:
        found = re.fullmatch(r"http://[^:]+:(\d+)/#token=(\S{32,})\n", said)
        assert found, said
        port, token = int(found[1]), found[2]
        assert ask(port, "/models", token)["current"] == "v1"
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(port, "/models")
        assert caught.value.code == 401
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)


def test_a_token_comes_from_a_file_or_the_environment(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not on the command line, nor in what is printed, nor known to the processes that the server starts."""
    (tmp_path / "token").write_text("  from-a-file-1234 \nsecond line\n")
    given = ("--model", str(small_model), "--store", str(tmp_path / "store"), "--port", "0", "--quiet")
    for arguments, token in (
        ((*given, "--token-file", str(tmp_path / "token")), "from-a-file-1234"),
        (given, "env-token-99"),
    ):
        monkeypatch.setenv("NERSHIFT_TOKEN", "env-token-99")
        process, said = start(*arguments)
        try:
            found = re.fullmatch(r"http://127.0.0.1:(\d+)/\n", said)
            assert found, said
            assert ask(int(found[1]), "/models", token)["current"] == "v1"
            for wrong in ("", "wrong-token"):
                with pytest.raises(urllib.error.HTTPError) as caught:
                    ask(int(found[1]), "/models", wrong)
                assert caught.value.code == 401
            if sys.platform == "linux":
                assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM)


def test_a_token_on_the_command_line_is_warned_of(small_model: Path, tmp_path: Path) -> None:
    given = ("--model", str(small_model), "--store", str(tmp_path), "--port", "0", "--quiet")
    process, said = start(*given, "--token", "seen-by-all-12")
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    assert "--token can be seen by everybody" in said
    assert "seen-by-all-12" not in said


def test_token_files_that_cannot_be_used(small_model: Path, tmp_path: Path) -> None:
    given = ("--model", str(small_model), "--port", "0", "--token-file", str(tmp_path / "token"))
    assert "cannot be read" in str(failure(*given))
    (tmp_path / "token").write_bytes(b"\xff" * 20)
    assert "cannot be read" in str(failure(*given))
    for short in ("", "\nlong-enough-but-second", "1234567"):
        (tmp_path / "token").write_text(short)
        assert "too short" in str(failure(*given))


def test_a_damaged_model_is_served_only_when_asked(small_model: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(small_model, tmp_path / "model")
    description = tmp_path / "model" / "model.json"
    description.write_text(description.read_text() + " ")
    told = failure("--model", str(tmp_path / "model"), "--port", "0")
    assert isinstance(told, CheckpointError)
    assert "as it was written" in str(told)
    process, said = start("--model", str(tmp_path / "model"), "--port", "0", "--no-verify", "--quiet")
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    assert said.startswith("http://")


def failure(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(app, ["serve", *arguments]).exception


def test_what_cannot_start_is_told(small_model: Path, tmp_path: Path) -> None:
    missing = failure("--model", str(tmp_path / "none"), "--port", "0")
    assert isinstance(missing, CheckpointError)
    short = failure("--model", str(small_model), "--token", "abc")
    assert isinstance(short, ConfigError)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = failure("--model", str(small_model), "--port", str(taken.getsockname()[1]))
    assert isinstance(busy, ConfigError)
    assert "cannot listen" in str(busy)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, small_model: Path) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    told = failure("--model", str(small_model))
    assert "nershift[serve]" in str(told)


def test_whoever_waits_when_the_server_stops_is_told(small_model: Path, tmp_path: Path) -> None:
    """Tagged or told to come back: no 500, no closed connection, no traceback."""
    process, said = start("--model", str(small_model), "--store", str(tmp_path), "--port", "0", "--quiet")
    port = int(re.findall(r":(\d+)/", said)[0])
    body = json.dumps({"texts": ["Okafor flew from Leeds to Porto .\n" * 300]}).encode()
    head = "POST /tag HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    try:
        assert ask(port, "/health")["status"] == "ok"
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(24)]
        for client in clients:
            client.sendall(head.format(len(body)).encode() + body)
        late = socket.create_connection(("127.0.0.1", port))
        late.sendall(head.format(len(body)).encode() + body[:-1])
        while ask(port, "/health")["queue"] < 4:
            pass
    finally:
        process.send_signal(signal.SIGTERM)
    statuses = []
    for client in (*clients, late):
        client.settimeout(20)
        statuses.append(int(client.recv(1 << 16)[9:12]))
        client.close()
    assert set(statuses) <= {200, 503}
    assert statuses[-1] == 503
    assert process.wait(20) in (0, -signal.SIGTERM)
    assert process.stderr is not None
    assert process.stderr.read() == ""
