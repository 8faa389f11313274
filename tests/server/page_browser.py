"""A real browser for the tests of the page, and a pretended server for those that need no tagger."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nershift.data.tokenizer import sentences, tokenize

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

STATIC = Path(__file__).resolve().parents[2] / "src" / "nershift" / "server" / "static"
TEXT = "we gave velmorin to Ada today.\nnothing else was said.\nthen Bo left for Leeds by night train."
_QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, or a skip. Close it within a test module: its event loop would be in others' way."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=[*_QUIET, "--disable-sync"])
        yield browser
        browser.close()


def watched(page: Page) -> Page:
    """Let any failure of the script, and anything the security policy blocks, fail the test."""
    page.failures = []  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.failures.append(str(error)))  # type: ignore[attr-defined]
    page.on(
        "console",
        lambda said: page.failures.append(said.text) if "Security Policy" in said.text else None,  # type: ignore[attr-defined]
    )
    page.set_default_timeout(10_000)
    return page


@dataclass
class Pretended:
    """Answers every request of a browser context: a tagger for which each capitalised word is a 'name'.

    From version v2 on, words in ``learned`` have the type they were given. ``phrases`` are found as one 'name' each;
    ``scores`` of entities and ``doubts`` of sentences are looked up by a word. ``refuse`` answers a path with a
    failure instead; ``asked`` keeps what was sent.
    """

    learned: dict[str, str] = field(default_factory=dict)
    phrases: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    doubts: dict[str, float] = field(default_factory=dict)
    versions: list[str] = field(default_factory=lambda: ["v1"])
    current: str = "v1"
    refuse: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # what GET /files/ID answers, by ID
    kept: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # labels by annotator and words
    types: dict[str, dict[str, Any]] = field(default_factory=dict)
    json: dict[str, Any] = field(default_factory=dict)  # answers of further paths
    id: str = "s1"
    most: int = 1_000_000
    job: str = "done"

    def serve(self, context: BrowserContext) -> None:
        context.route("**/*", self._answer)

    def sent(self, path: str) -> list[Any]:
        return [body for asked, _, body in self.asked if asked == path]

    def _answer(self, route: Route) -> None:
        request = route.request
        path = request.url.split("/", 3)[3].partition("#")[0].partition("?")[0]
        file = STATIC / (path.removeprefix("static/") or "index.html")
        if file.is_file():
            route.fulfill(body=file.read_bytes(), content_type=_KINDS[file.suffix])
            return
        body = json.loads(request.post_data) if request.post_data else None
        self.asked.append((path, request.headers, body))
        if path in self.refuse:
            status, problem = self.refuse[path]
            route.fulfill(status=status, json={"error": problem})
        elif path == "export":
            route.fulfill(body="labels", headers={"Content-Disposition": 'attachment; filename="labels.conll"'})
        else:
            route.fulfill(json=self._json(path, body))

    def _json(self, path: str, body: Any) -> Any:
        if path in self.json:
            return self.json[path]
        if path == "labels":
            return self._sync(body)
        if path == "annotators":
            names = [name for name, labels in self.kept.items() if labels]
            return {"annotators": [{"name": name, "accepted": len(self.kept[name])} for name in names]}
        if path.startswith("files/"):
            return self.files[path.removeprefix("files/")]
        if path == "files":
            return self._files(body)
        if path == "formats":
            return {"formats": ["conll", "jsonl"]}
        if path == "tag":
            model = body.get("model") or self.current
            return {
                "model": model,
                "results": [self._tag(t, model) for t in body.get("texts", body.get("tokens"))],
            }
        if path == "adapt":
            self.learned |= {
                s["tokens"][at]: e["label"]
                for s in body["sentences"]
                for e in s["entities"]
                for at in range(e["token_start"], e["token_end"])
            }
            return {"job": "j1"}
        if path == "jobs/j1":
            return self._job()
        if path == "models/current":
            self.current = body["name"]
        return {"current": self.current, "versions": [self._version(name) for name in self.versions]}

    def _sync(self, body: Any) -> dict[str, Any]:
        """Answers with all labels of the annotator each time: the page takes what is newer."""
        kept = self.kept.setdefault(body["annotator"], {})
        for record in body["records"]:
            key = " ".join(record["tokens"])
            if record["changed"] > kept.get(key, {"changed": -1})["changed"]:
                kept[key] = record
        for record in body["types"]:
            if record["changed"] > self.types.get(record["name"], {"changed": -1})["changed"]:
                self.types[record["name"]] = record
        known = {"id": self.id, "at": 1, "types_at": 1, "more": False}
        return {**known, "records": [*kept.values()], "types": [*self.types.values()]}

    def _files(self, body: Any) -> dict[str, Any]:
        if body is not None:
            name = f"f{len(self.files)}"
            text = base64.b64decode(body["files"][0]["content"]).decode()
            rows = [
                {"tokens": line.split(), "gaps": ["", *[" "] * (len(line.split()) - 1)]} for line in text.split("\n")
            ]
            self.files[name] = {"id": name, "name": body["files"][0]["name"], "format": "text", "sentences": rows}
            return {"id": name}
        listed = [
            {**file, "sentences": len(file["sentences"]), "accepted": 0, "labelled": "entities" in file["sentences"][0]}
            for file in self.files.values()
        ]
        return {"files": listed, "formats": ["conll", "text"], "upload_bytes": self.most}

    def _job(self) -> dict[str, Any]:
        done = self.job == "done"
        if done:
            self.versions = ["v1", "v2"]
            self.current = "v2"
        f1 = {"mean": 0.81, "sd": 0.04, "folds": 5} if done else None
        version = "v2" if done else None
        return {
            "job": "j1",
            "state": self.job,
            "progress": 0.5,
            "message": "half way",
            "version": version,
            "f1": f1,
        }

    def _version(self, name: str) -> dict[str, Any]:
        types = {"name"} if name == "v1" else {"name", *self.learned.values()}
        return {
            "name": name,
            "labels": sorted(types),
            "method": "finetune",
            "created": "2025-01-01T12:00:00+00:00",
            "parent": None if name == "v1" else "v1",
            "note": "",
            "f1": None,
        }

    def _tag(self, given: str | list[str], model: str) -> dict[str, Any]:
        tokens: list[dict[str, Any]] = []
        ranges: list[list[int]] = []
        if isinstance(given, str):
            for a, b in sentences(given):
                start = len(tokens)
                found = [(a + x, a + y) for x, y in tokenize(given[a:b])]
                tokens += [{"text": given[x:y], "start": x, "end": y} for x, y in found]
                ranges.append([start, len(tokens)])
        else:
            tokens, ranges = [{"text": word} for word in given], [[0, len(given)]]
        words = [token["text"] for token in tokens]
        known = {} if model == "v1" else self.learned
        entities, at = [], 0
        while at < len(words):
            phrase = next(
                (p.split() for p in self.phrases if words[at : at + len(p.split())] == p.split()), words[at : at + 1]
            )
            if len(phrase) > 1 or phrase[0] in known or phrase[0][0].isupper():
                entities.append(
                    {
                        "token_start": at,
                        "token_end": at + len(phrase),
                        "label": known.get(phrase[0], "name"),
                        "text": " ".join(phrase),
                        "score": self.scores.get(phrase[0], 0.93),
                    }
                )
            at += len(phrase)
        doubt = [max(self.doubts.get(word, 0.1) for word in words[a:b]) for a, b in ranges]
        return {"tokens": tokens, "sentences": ranges, "entities": entities, "uncertainty": doubt}


def word(page: Page, text: str) -> Any:
    return page.get_by_role("option", name=text, exact=True)


def step(page: Page, name: str) -> None:
    """Go to one of the three steps."""
    page.locator(f"#step-{name}").click()


def entities(page: Page, row: int) -> list[str]:
    """'Ada name' for each entity of a sentence, rows counted from 1."""
    boxes = page.locator(f"#sentences li[data-row='{row - 1}'] .entity")
    return boxes.evaluate_all(
        "boxes => boxes.map((box) => [...box.childNodes].slice(0, -1).map((node) => node.textContent).join('')"
        " + ' ' + box.lastChild.textContent)"
    )


def focused(page: Page) -> str:
    """The text of what has the focus."""
    return page.evaluate("document.activeElement.textContent")


def tick(page: Page, row: int) -> Any:
    """The box that says that a sentence is accepted."""
    return page.locator(f"#sentences li[data-row='{row - 1}'] input")


def stored(page: Page) -> dict[str, Any]:
    """The labels that the browser keeps, by the words of their sentences; those taken back are left out."""
    kept = page.evaluate("Object.entries(localStorage).filter(([name]) => name.startsWith('nershift/labels/'))")
    records = [json.loads(value) for _, value in kept]
    return {" ".join(r["tokens"]): r for r in records if not r.get("deleted")}
