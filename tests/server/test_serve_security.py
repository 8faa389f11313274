from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nershift.server.refusals import Refusal
from nershift.server.security import Guard, is_loopback, new_token

TOKEN = "a-long-enough-token"


def status(guard: Guard, path: str, method: str = "GET", **given: str) -> int:
    headers = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in given.items()]
    try:
        guard.check(method, path, headers)
    except Refusal as refusal:
        return refusal.status
    return 200


def test_no_fastapi_is_installed_that_takes_any_body_for_json() -> None:
    """Before 0.132 it did, so that a page of another address could send one without asking first."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.findall(r'"fastapi>=0\.(\d+)"', text)
    assert bounds
    assert min(map(int, bounds)) >= 132


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


def posted(**given: str) -> int:
    return status(Guard(), "/adapt", "POST", **{"host": "127.0.0.1:8000", "content_type": "application/json", **given})


def test_programs_and_the_page_may_change_things() -> None:
    assert posted() == 200
    assert posted(origin="http://127.0.0.1:8000", sec_fetch_site="same-origin") == 200
    assert posted(content_type="Application/JSON; charset=utf-8") == 200
    proxied = {"host": "example.org", "origin": "https://example.org", "authorization": f"Bearer {TOKEN}"}
    assert status(Guard(TOKEN), "/adapt", "POST", content_type="application/json", **proxied) == 200
    assert status(Guard(), "/jobs/j1", "DELETE", host="localhost") == 200  # it has no body to announce


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://127.0.0.1:9000",
        "http://127.0.0.1",
        "http://127.0.0.1:8000.evil.example",
    ],
)
def test_a_page_of_another_address_may_not(origin: str) -> None:
    assert posted(origin=origin) == 403
    assert posted(origin=origin, sec_fetch_site="none") == 403
    assert status(Guard(), "/jobs/j1", "DELETE", host="127.0.0.1:8000", origin=origin) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "Same-Origin, none"])
def test_what_the_browser_says_of_a_page_counts(site: str) -> None:
    assert posted(sec_fetch_site=site) == 403
    assert posted(sec_fetch_site=site, origin="http://127.0.0.1:8000") == 403


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "text/plain; application/json",
        "text/plain;charset=application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "application/json, text/plain",
        "application/jsonp",
    ],
)
def test_what_a_form_can_send_is_not_json(content_type: str) -> None:
    assert posted(content_type=content_type) == 415


def test_a_header_that_decides_is_there_once() -> None:
    for name in (b"host", b"origin", b"content-type", b"sec-fetch-site", b"authorization"):
        with pytest.raises(Refusal) as caught:
            Guard().check("GET", "/", [(b"host", b"localhost"), (name, b"localhost"), (name, b"other")])
        assert caught.value.status == 400


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
        refused: Any = client.post("/tag", json={"texts": []})  # without a token
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["code"] == "token"
        allowed = client.post("/tag", json={"texts": []}, headers={"authorization": f"Bearer {TOKEN}"})
        assert allowed.status_code == 200


def test_no_page_from_elsewhere_reaches_an_unsafe_route(client: Any) -> None:
    """Whatever a browser sends for a foreign page without asking first, on every route that changes something."""
    body = b'{"sentences": [{"tokens": ["Leeds"], "entities": [{"start": 0, "end": 1, "label": "person"}]}]}'
    unsafe = [
        (method.upper(), path.replace("{job}", "j00000000").replace("{name}", "v1").replace("{file}", "f00000000"))
        for path, methods in client.app.openapi()["paths"].items()
        for method in methods
        if method != "get"
    ]
    assert ("POST", "/adapt") in unsafe
    for method, path in unsafe:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None):
            headers = {"content-type": kind} if kind else {}
            answer = client.request(method, path, content=body, headers=headers)
            assert answer.status_code == (404 if method == "DELETE" else 415), (method, path, kind)
        for said in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
            answer = client.request(method, path, content=body, headers={"content-type": "application/json", **said})
            assert answer.status_code == 403, (method, path, said)
    asked = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/adapt", headers=asked).headers
    assert client.get("/models").json()["current"] == "v1"
    assert not client.service.jobs._jobs
