from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nershift.server.refusals import Refusal
from nershift.server.security import Guard, is_loopback, new_token

TOKEN = "a-long-enough-token"


def headers(**given: str) -> dict[bytes, bytes]:
    return {k.encode(): v.encode() for k, v in given.items()}


def status(guard: Guard, path: str, **given: str) -> int:
    try:
        guard.check(path, headers(**given))
    except Refusal as refusal:
        return refusal.status
    return 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000", "127.3.2.1"])
def test_this_machine_is_answered(host: str) -> None:
    assert status(Guard(), "/tag", host=host) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "10.0.0.1", "", "localhost.evil.example"])
def test_a_name_that_was_pointed_here_is_not(host: str) -> None:
    assert status(Guard(), "/tag", host=host) == 403


def test_a_token_opens_everything_and_no_host_matters() -> None:
    guard = Guard(TOKEN)
    assert status(guard, "/tag", host="any", authorization=f"Bearer {TOKEN}") == 200
    for wrong in ("", "Bearer", "Bearer x", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        assert status(guard, "/tag", host="any", authorization=wrong) == 401
    for path in ("/", "/health", "/static/app.js", "/docs"):
        assert status(guard, path, host="any") == 200
    for path in ("/models", "/metrics", "/adapt", "/jobs/j1", "/staticx"):
        assert status(guard, path, host="any") == 401


def test_tokens_are_new_and_long() -> None:
    assert new_token() != new_token()
    assert len(new_token()) >= 32


def test_loopback() -> None:
    assert is_loopback("[::1]")
    assert not is_loopback("::")
    assert not is_loopback("example.org")


def test_refusals_over_http(small_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.service import Service

    app = make_app(Service(small_model, tmp_path), Guard(TOKEN))
    with TestClient(app, base_url="http://evil.example") as client:
        refused: Any = client.post("/tag", json={"texts": []})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["code"] == "token"
        allowed = client.post("/tag", json={"texts": []}, headers={"authorization": f"Bearer {TOKEN}"})
        assert allowed.status_code == 200
