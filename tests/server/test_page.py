"""The whole story in a real browser with a real tagger: tag, select, adapt, export, reload, restart, two annotators."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from page_browser import step, watched

from nershift.data.builtin import builtin_corpus
from nershift.data.corpus import Corpus
from nershift.data.formats.base import read_sentences, write_sentences
from nershift.data.spans import Sentence
from nershift.data.tokenizer import tokenize
from nershift.run import transfer
from nershift.tagger.tagger import Tagger

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NEW = "drug"
KNOWN = ("event", "organisation", "person", "place")
SMALL: dict[str, Any] = {
    "device": "cpu",
    "encoder": {"words": {"size": 32, "word_dropout": 0.1}, "chars": {"filters": 48}, "recurrent": {"size": 40}},
    "train": {"epochs": 5, "batch_size": 16, "lr": 5e-3},
}


class Server:
    """``nershift serve`` as a process of its own; a restart keeps the port, and so the browser's storage."""

    def __init__(self, model: Path) -> None:
        self.model, self.port = model, 0
        self.start()

    def start(self) -> None:
        command = ["serve", "--model", str(self.model), "--port", str(self.port), "--quiet"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from nershift.cli import main; main()", *command],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stderr is not None
        said = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        assert found, said + self.process.stderr.read()
        self.address, self.port = found[0], int(found[1])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:  # the port is known before it is open
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("fastapi")
    news = builtin_corpus("news")
    few = Corpus("news", {"train": news.train[:250], "test": news.splits["test"][:20]}, domain="news", language="en")
    folder = tmp_path_factory.mktemp("page") / "news"
    transfer("target_only", few, out=folder, config=SMALL, quiet=True, report=False)
    started = Server(folder)
    yield started
    started.stop()


def with_drugs(split: tuple[Sentence, ...], number: int) -> list[Sentence]:
    """Clinic sentences about drugs that our tokenizer cuts as the corpus does, with types of the story alone."""
    chosen = []
    for sentence in split:
        text = " ".join(sentence.tokens)
        spans = [span for span in sentence.spans if span.label in (*KNOWN, NEW)]
        if NEW in {s.label for s in spans} and [text[a:b] for a, b in tokenize(text)] == list(sentence.tokens):
            chosen.append(Sentence(sentence.tokens, tuple(spans)))
    return chosen[:number]


def tag(page: Page, sentences: list[Sentence]) -> None:
    step(page, "text")
    page.get_by_role("textbox", name="Paste text").fill("\n".join(" ".join(s.tokens) for s in sentences))
    page.get_by_role("button", name="Tag", exact=True).click()
    page.locator("#sentences li").nth(len(sentences) - 1).wait_for()
    page.get_by_text(f"{len(sentences)} sentences,").wait_for()


def shown(page: Page) -> list[tuple[int, str, str]]:
    """Row, words and type of every entity on the page."""
    return [
        tuple(found)
        for found in page.locator("#sentences .entity").evaluate_all(
            "boxes => boxes.map((box) => [Number(box.closest('li').dataset.row), "
            "[...box.querySelectorAll('.word')].map((word) => word.textContent).join(' '), box.lastChild.textContent])"
        )
    ]


def word(page: Page, row: int, at: int) -> Any:
    return page.locator(f'#sentences li[data-row="{row}"] .word[data-at="{at}"]')


def correct(page: Page, row: int, sentence: Sentence) -> None:
    """Make a sentence right with keys alone: remove what was predicted, select words, press a digit; then accept."""
    while (entity := page.locator(f'#sentences li[data-row="{row}"] .entity .word')).count():
        entity.first.focus()
        page.keyboard.press("Delete")
    for span in sentence.spans:
        word(page, row, span.start).focus()
        for _ in range(span.end - span.start - 1):
            page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press(page.locator(f"#types [data-type={span.label}] kbd").inner_text())
    page.keyboard.press("Space")


def served(page: Page, version: str) -> None:
    """Wait for the predictions of a version."""
    page.locator("#found", has_text=f"predicted by {version}").wait_for(state="attached")


def picture(page: Page, name: str) -> None:
    """Keep what the page looks like, for the documentation, where NERSHIFT_PICTURES names a folder."""
    if folder := os.environ.get("NERSHIFT_PICTURES"):
        page.screenshot(path=Path(folder) / f"page-{name}.png")


def pictures(page: Page, unseen: list[Sentence]) -> None:
    """The adapted page by day, by night and on a telephone."""
    picture(page, "adapted")
    step(page, "correct")
    page.emulate_media(color_scheme="dark")
    word(page, 0, unseen[0].spans[0].start).click()
    picture(page, "dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    picture(page, "narrow")
    page.set_viewport_size({"width": 1200, "height": 900})


def export(page: Page, form: str, folder: Path) -> list[Sentence]:
    page.get_by_label("Format").select_option(form)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export labels").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return list(read_sentences(path, form))


def test_a_new_type_from_a_dozen_corrections(browser: Browser, server: Server, tmp_path: Path) -> None:
    clinic = builtin_corpus("clinic")
    lessons, unseen = with_drugs(clinic.train, 12), with_drugs(clinic.splits["dev"], 8)
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = watched(context.new_page())
    page.goto(server.address)

    tag(page, unseen)
    before = shown(page)
    assert NEW not in {label for _, _, label in before}

    # The first mention of the new type by mouse, everything else by keyboard.
    tag(page, lessons)
    first = next(span for span in lessons[0].spans if span.label == NEW)
    word(page, 0, first.start).click()
    page.get_by_label("New type").fill(NEW)
    picture(page, "correct")
    page.get_by_role("button", name="Add").click()
    assert not page.locator("#sentences li.accepted").count()
    assert (0, lessons[0].mention(first), NEW) in shown(page)
    for row, sentence in enumerate(lessons):
        correct(page, row, sentence)
    step(page, "adapt")
    assert page.locator("#labels-count").inner_text() == "12 accepted sentences"
    assert export(page, "conll", tmp_path) == lessons
    assert [(s.tokens, s.spans) for s in export(page, "jsonl", tmp_path)] == [(s.tokens, s.spans) for s in lessons]

    tag(page, unseen)
    step(page, "adapt")
    page.get_by_role("button", name="Adapt", exact=True).click()
    page.locator("#compare .come").first.wait_for(timeout=180_000)
    after = shown(page)
    learned = [(row, words) for row, words, label in after if label == NEW]
    right = {(row, s.mention(span)) for row, s in enumerate(unseen) for span in s.spans if span.label == NEW}
    assert right & set(learned)
    page.get_by_text("On your labels, cross-validated: F1").wait_for(timeout=180_000)
    page.locator("#job").wait_for(state="hidden")
    pictures(page, unseen)

    step(page, "adapt")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download version v2").click()
    zipfile.ZipFile(download.value.path()).extractall(tmp_path / "taken")
    [model] = (tmp_path / "taken").rglob("model.safetensors")
    home = Tagger.load(model.parent).tag_tokens([s.tokens for s in unseen])
    assert [(row, s.mention(x), x.label) for row, s in enumerate(home) for x in s.spans] == after

    page.reload()
    served(page, "v2")
    assert page.locator("#labels-count").inner_text() == "12 accepted sentences"
    page.get_by_role("button", name="Use version v1").click()
    served(page, "v1")
    assert shown(page) == before
    page.get_by_role("button", name="Use version v2").click()
    served(page, "v2")

    server.stop()
    step(page, "text")
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_role("alert").get_by_text("The server does not answer.").wait_for()
    server.start()
    page.reload()
    served(page, "v2")
    assert shown(page) == after
    assert page.get_by_role("alert").inner_text() == ""
    assert page.failures == []
    context.close()


def a_browser(browser: Browser, server: Server, name: str = "") -> Page:
    """A browser that has seen nothing of the server, with its annotator."""
    page = watched(browser.new_context(viewport={"width": 1200, "height": 900}).new_page())
    page.goto(server.address)
    page.locator("#saved", has_text="on the server").wait_for()
    step(page, "text")
    if name:
        page.get_by_role("combobox", name="Your name").fill(name)
        page.keyboard.press("Enter")
        page.locator("#saved", has_text=f"Labels of {name}: on the server").wait_for()
    return page


def saved(page: Page) -> None:
    page.locator("#saved", has_text="in this browser only").wait_for(state="detached")
    page.locator("#saved", has_text="on the server").wait_for()


def test_two_annotators_of_one_file_and_a_restart(browser: Browser, server: Server, tmp_path: Path) -> None:
    """What they said is there after the server was killed, in browsers that have never seen it."""
    gold = with_drugs(builtin_corpus("clinic").splits["test"], 12)
    write_sentences(tmp_path / "clinic.conll", gold, "conll")
    (tmp_path / "letter.txt").write_text("Dr. Osei gave her 20 mg of Velmorin. She left for Leeds.")
    ada = a_browser(browser, server, "Ada")
    ada.locator("#upload").set_input_files([tmp_path / "clinic.conll", tmp_path / "letter.txt"])
    ada.get_by_text("12 sentences of clinic.conll").wait_for()
    assert len({row for row, _, _ in shown(ada)}) == 12
    for _ in range(10):
        ada.keyboard.press("Space")
    saved(ada)
    step(ada, "text")
    ada.get_by_text("10 of 12 sentences accepted · conll, with labels").wait_for()
    picture(ada, "files")

    bo = a_browser(browser, server, "Bo")
    bo.get_by_role("button", name="clinic.conll", exact=True).click()
    bo.get_by_text("12 sentences of clinic.conll").wait_for()
    drug = next(s for s in gold[0].spans if s.label == NEW)
    word(bo, 0, drug.start).click()
    bo.keyboard.press("Delete")
    for _ in range(8):
        bo.keyboard.press("Space")
    saved(bo)

    server.process.kill()
    server.process.communicate()
    server.start()

    new = a_browser(browser, server, "Bo")
    new.get_by_text("8 of 12 sentences accepted").wait_for()
    new.get_by_role("button", name="clinic.conll", exact=True).click()
    new.get_by_text("12 sentences of clinic.conll").wait_for()
    assert new.locator("#progress-text").inner_text() == "8 of 12 accepted"
    assert (0, gold[0].mention(drug), NEW) not in shown(new)
    step(new, "adapt")
    new.get_by_text("8 sentences accepted by both, 1 of them not alike").wait_for()
    picture(new, "agreement")
    with new.expect_download() as download:
        new.get_by_role("button", name="Table (CSV)").click()
    rows = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    total = sum(len(s.spans) for s in gold[:8])
    assert rows[-1].split(",")[3:] == [str(total - 1), str(total), str(total - 1)]
    assert ada.failures == bo.failures == new.failures == []
    for page in (ada, bo, new):
        page.context.close()
