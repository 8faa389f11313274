"""A tagger of a second's training, a server around it in this process, and the page in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_browser import TEXT, Pretended, chromium, watched

from nershift.data.corpus import Corpus
from nershift.run import pretrain, transfer

SMALL: dict[str, Any] = {
    "device": "cpu",
    "encoder": {
        "words": {"size": 16},
        "chars": {"size": 8, "filters": 16},
        "recurrent": {"size": 16},
        "dropout": 0.1,
    },
    "train": {"epochs": 8, "batch_size": 8, "lr": 0.02},
    "pretrain": {"epochs": 2, "batch_size": 8, "lr": 0.02},
}


@pytest.fixture(scope="session")
def small_model(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger of persons and places in news."""
    out = tmp_path_factory.mktemp("served") / "model"
    corpus = make_corpus("news", train=80, dev=0, test=0)
    transfer("target_only", corpus, out=out, config=SMALL, quiet=True, report=False)
    return out


@pytest.fixture(scope="session")
def pretrained_model(make_corpus: Callable[..., Corpus], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was pretrained on two label spaces and has no target yet."""
    out = tmp_path_factory.mktemp("served") / "pretrained"
    sources = [make_corpus(domain, train=40, dev=0, test=0) for domain in ("news", "clinic")]
    return pretrain("finetune", sources, out=out, config=SMALL, quiet=True)


@pytest.fixture
def client(small_model: Path, tmp_path: Path) -> Iterator[Any]:
    """A client of a server of the small tagger; its ``app.state`` holds the service."""
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.service import Service

    service = Service(small_model, tmp_path / "store")
    with TestClient(make_app(service), base_url="http://127.0.0.1") as made:
        made.service = service  # type: ignore[attr-defined]
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def server() -> Pretended:
    return Pretended()


@pytest.fixture
def visit(browser: Any, server: Pretended) -> Iterator[Callable[..., Any]]:
    """``visit(text, **context settings)``: the page of the pretended server, with the text tagged."""
    made: list[Any] = []

    def open_page(text: str = TEXT, address: str = "", **settings: Any) -> Any:
        context = browser.new_context(**settings)
        server.serve(context)
        page = watched(context.new_page())
        made.append((context, page))
        page.goto(f"http://127.0.0.1:9/{address}")
        if text:
            page.get_by_role("textbox", name="Paste text").fill(text)
            page.keyboard.press("Control+Enter")
            page.wait_for_selector("#sentences li")
        return page

    yield open_page
    for context, page in made:
        context.close()
        assert page.failures == []
