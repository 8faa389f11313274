"""The page in a real browser, against a pretended server: what each control and each key does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from page_browser import STATIC, Pretended, chromium, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TEXT = "we gave velmorin to Ada today.\nnothing else was said.\nthen Bo left for Leeds by night train."
Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def server() -> Pretended:
    return Pretended()


@pytest.fixture
def visit(browser: Browser, server: Pretended) -> Iterator[Open]:
    """``visit(text, **context settings)``: the page, with the text tagged."""
    made: list[Any] = []

    def open_page(text: str = TEXT, address: str = "", **settings: Any) -> Page:
        context = browser.new_context(**settings)
        server.serve(context)
        page = watched(context.new_page())
        made.append((context, page))
        page.goto(f"http://127.0.0.1:9/{address}")
        if text:
            page.get_by_role("textbox", name="Text").fill(text)
            page.keyboard.press("Control+Enter")
            page.wait_for_selector("#sentences li")
        return page

    yield open_page
    for context, page in made:
        context.close()
        assert page.failures == []


def word(page: Page, text: str) -> Any:
    return page.get_by_role("option", name=text, exact=True)


def entities(page: Page, row: int) -> list[str]:
    """'Ada name' for each entity of a sentence, rows counted from 1."""
    boxes = page.locator(f"#sentences li:nth-child({row}) .entity")
    return boxes.evaluate_all(
        "boxes => boxes.map((box) => [...box.childNodes].slice(0, -1).map((node) => node.textContent).join('')"
        " + ' ' + box.lastChild.textContent)"
    )


def stored(page: Page) -> dict[str, Any]:
    return json.loads(page.evaluate("localStorage.getItem('nershift')"))


def test_needs_nothing_from_elsewhere() -> None:
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8")
        outside = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text))
        assert outside <= {"http://www.w3.org/2000/svg"}, file
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", text), file
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\son\w+=|style=|<style|<script>", page)


def test_scripts_name_only_ids_that_the_page_has() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    named = {i for f in STATIC.glob("*.js") for i in re.findall(r'byId\("([^"]+)"\)', f.read_text(encoding="utf-8"))}
    referred = set(re.findall(r'(?:aria-labelledby|aria-describedby|for)="([^"]+)"', page))
    assert named | referred <= set(ids)


def test_entities_show_type_and_confidence(visit: Open) -> None:
    page = visit()
    assert [entities(page, row) for row in (1, 2, 3)] == [["Ada name"], [], ["Bo name", "Leeds name"]]
    assert page.locator("#status").inner_text() == "3 sentences, 3 entities predicted by v1"
    assert page.locator(".entity").first.get_attribute("title") == "name, confidence 93 %"
    word(page, "Ada").hover()
    assert page.locator("#detail").inner_text().split("\n")[:1] == ["Ada"]
    assert "confidence 93 %" in page.locator("#detail").inner_text()
    page.get_by_role("group", name="name, confidence 93 %").first.wait_for()


def test_the_mouse_selects_words_and_names_a_new_type(visit: Open) -> None:
    page = visit()
    night, train = word(page, "night").bounding_box(), word(page, "train").bounding_box()
    page.mouse.move(night["x"] + 5, night["y"] + 5)
    page.mouse.down()
    page.mouse.move(train["x"] + 5, train["y"] + 5, steps=4)
    page.mouse.up()
    assert page.locator("#menu-words").inner_text() == "night train"
    page.get_by_label("New type").fill("two words")
    page.keyboard.press("Enter")
    assert page.locator("#menu").is_visible()  # refused: a type is one word
    page.get_by_label("New type").fill("vehicle")
    page.keyboard.press("Enter")
    assert entities(page, 3) == ["Bo name", "Leeds name", "night train vehicle"]
    assert page.locator("#sentences li:nth-child(3) input").is_checked()
    word(page, "Leeds").click()
    page.get_by_role("button", name="vehicle").click()  # the new type is offered from now on
    assert entities(page, 3) == ["Bo name", "Leeds vehicle", "night train vehicle"]
    word(page, "Bo").click()
    page.get_by_role("button", name="Remove entity").click()
    assert entities(page, 3) == ["Leeds vehicle", "night train vehicle"]
    page.get_by_role("button", name="Reset sentence 3 to the prediction").click()
    assert entities(page, 3) == ["Bo name", "Leeds name"]
    assert stored(page)["entries"] == []


def test_the_keyboard_does_it_all(visit: Open) -> None:
    page = visit()
    press = page.keyboard.press
    word(page, "we").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        press(key)
    assert page.locator("#menu-words").inner_text() == "velmorin"
    press("Escape")
    assert not page.locator("#menu").is_visible()
    assert page.evaluate("document.activeElement.textContent") == "velmorin"
    press("Enter")
    press("ArrowDown")  # from the one known type to the field for a new one
    page.keyboard.type("drug")
    press("Enter")
    assert entities(page, 1) == ["velmorin drug", "Ada name"]
    assert page.evaluate("document.activeElement.textContent") == "velmorin"
    press("Delete")
    assert entities(page, 1) == ["Ada name"]
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    assert page.locator('[aria-selected="true"]').all_inner_texts() == ["velmorin", "to", "Ada"]
    press("1")  # what it overlaps gives way
    assert entities(page, 1) == ["velmorin to Ada name"]
    press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "nothing"
    press("Space")
    assert page.locator("#labels-count").inner_text() == "2 checked sentences, 1 of them without entities"
    press("End")
    press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "then"
    press("ArrowLeft")
    press("Space")
    assert page.locator("#labels-count").inner_text() == "1 checked sentence"
    press("n")  # the longest that is not checked
    page.wait_for_selector("#sentences li.next")
    assert page.evaluate("document.activeElement.textContent") == "then"


def test_each_sentence_is_one_stop_of_tab(visit: Open) -> None:
    page = visit()
    assert page.locator('.word[tabindex="0"]').all_inner_texts() == ["we", "nothing", "then"]
    word(page, "Ada").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator('.word[tabindex="0"]').all_inner_texts() == ["today", "nothing", "then"]


def test_adapting_shows_before_and_after(visit: Open, server: Pretended) -> None:
    page = visit()
    assert page.locator("#adapt").is_disabled()
    assert not page.locator("#compare").is_visible()
    word(page, "velmorin").click()
    page.get_by_label("New type").fill("drug")
    page.keyboard.press("Enter")
    server.job = "training"
    page.get_by_role("button", name="Adapt").click()
    page.get_by_text("half way").wait_for()
    assert page.evaluate("document.activeElement.id") == "adapt"
    assert page.locator("#job-progress").evaluate("bar => bar.value") == 0.5
    assert page.locator("#adapt").is_disabled()
    page.reload()  # the job is found again
    page.get_by_text("half way").wait_for()
    server.job = "done"
    page.get_by_text("v2 serves. On your labels, cross-validated: F1 81 ± 4 %, 5 folds.").wait_for()
    assert server.sent("adapt") == [
        {
            "sentences": [
                {
                    "tokens": ["we", "gave", "velmorin", "to", "Ada", "today", "."],
                    "entities": [
                        {"token_start": 2, "token_end": 3, "label": "drug"},
                        {"token_start": 4, "token_end": 5, "label": "name"},
                    ],
                }
            ],
            "note": "",
            "cross_validate": True,
        }
    ]
    assert page.locator("#compare-summary").inner_text() == "1 difference in 1 of 3 sentences"
    assert page.locator("#compare .come").inner_text() == "velmorin+ drug"
    assert page.locator("#compare .pair .words").count() == 2
    page.get_by_label("all sentences").check()
    assert page.locator("#compare .pair .words").count() == 6
    page.get_by_role("button", name="Use version v1").click()
    page.get_by_text("3 entities predicted by v1").wait_for()
    assert server.current == "v1"
    page.get_by_role("button", name="Download version v1").and_(page.locator(":focus")).wait_for()


def test_a_cancelled_job_changes_nothing(visit: Open, server: Pretended) -> None:
    page = visit()
    page.get_by_label("checked").first.check()
    server.job = "training"
    page.get_by_role("button", name="Adapt").click()
    page.get_by_role("button", name="Cancel").click()
    server.job = "cancelled"
    page.get_by_text("Cancelled; nothing has changed.").wait_for()
    assert not page.locator("#job").is_visible()
    assert page.locator("#adapt").is_enabled()


def test_a_job_lost_with_the_server_is_said(visit: Open, server: Pretended) -> None:
    page = visit()
    page.get_by_label("checked").first.check()
    server.job = "training"
    page.get_by_role("button", name="Adapt").click()
    page.get_by_text("half way").wait_for()
    server.refuse["jobs/j1"] = (404, {"code": "unknown", "message": "there is no such job", "fix": ""})
    page.get_by_role("alert").get_by_text("Press Adapt again.").wait_for()
    assert page.locator("#adapt").is_enabled()
    assert stored(page)["job"] is None


def test_failures_are_announced_with_the_way_out(visit: Open, server: Pretended) -> None:
    page = visit()
    problem = {"code": "busy", "message": "an adaptation is running", "fix": "wait for it, or cancel it"}
    server.refuse["adapt"] = (429, problem)
    page.get_by_label("checked").first.check()
    page.get_by_role("button", name="Adapt").click()
    page.get_by_role("alert").get_by_text("an adaptation is running").wait_for()
    assert page.get_by_role("alert").get_by_text("wait for it, or cancel it").is_visible()
    assert page.locator("#adapt").is_enabled()
    page.get_by_role("button", name="Dismiss").click()
    assert page.get_by_role("alert").inner_text() == ""


def test_labels_outlive_a_reload_and_reach_other_tabs(visit: Open) -> None:
    page = visit()
    other = watched(page.context.new_page())
    other.goto(page.url)
    page.bring_to_front()
    page.get_by_label("checked").nth(1).check()
    other.get_by_text("1 checked sentence").wait_for()
    assert other.get_by_label("checked").nth(1).is_checked()
    page.reload()
    page.wait_for_selector("#sentences li.checked")
    page.get_by_role("button", name="Show labelled sentences").click()
    page.locator("#sentences > li:only-child").wait_for()
    assert page.locator("#sentences .words").inner_text() == "nothing else was said."
    page.get_by_role("button", name="Delete all labels").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("0 checked sentences").wait_for()
    assert stored(page)["entries"] == []


def test_full_storage_is_said(visit: Open) -> None:
    page = visit()
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('full') } }")
    page.get_by_label("checked").first.check()
    page.get_by_role("alert").get_by_text("Export the labels now").wait_for()
    assert page.locator("#labels-count").inner_text() == "1 checked sentence"  # still there to be exported


def test_export_is_a_download_of_checked_sentences(visit: Open, server: Pretended) -> None:
    page = visit()
    page.get_by_label("checked").nth(1).check()
    page.get_by_label("Format").select_option("jsonl")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export labels").click()
    assert download.value.suggested_filename == "labels.conll"  # the server names it
    assert server.sent("export") == [
        {
            "sentences": [{"tokens": ["nothing", "else", "was", "said", "."], "entities": []}],
            "format": "jsonl",
        }
    ]


def test_text_is_never_markup(visit: Open) -> None:
    text = "😀 <img src=x onerror=alert(1)> 😀  Zoë"
    page = visit(text)
    assert page.locator("#sentences .words").evaluate("e => e.textContent") == text + "name"
    assert page.locator("#sentences img").count() == 0


def test_the_token_is_sent_and_leaves_the_address(visit: Open, server: Pretended) -> None:
    page = visit(address="#token=secret")
    assert page.url.endswith("/")
    page.reload()
    page.wait_for_selector("#sentences li")
    assert {headers.get("authorization") for _, headers, _ in server.asked} == {"Bearer secret"}


def test_fingers_tap_words_on_a_narrow_screen(visit: Open) -> None:
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    word(page, "night").tap()
    box = page.locator("#menu").bounding_box()
    assert (box["x"], box["width"]) == (0, 360)
    night = word(page, "night").bounding_box()
    assert night["y"] + night["height"] < box["y"]  # not under the menu
    page.get_by_role("button", name="+ word").tap()
    assert page.locator("#menu-words").inner_text() == "night train"
    page.get_by_role("button", name="name").tap()
    assert entities(page, 3) == ["Bo name", "Leeds name", "night train name"]
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_right_to_left_text_moves_the_other_way(visit: Open) -> None:
    page = visit("ذهب أحمد إلى بغداد")
    word(page, "ذهب").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == "أحمد"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(visit: Open, server: Pretended, theme: str) -> None:
    """WCAG AA: at least 4.5 to 1 between any text and what lies behind it."""
    server.learned, server.versions, server.current = {"velmorin": "drug"}, ["v1", "v2"], "v2"
    server.refuse["export"] = (503, {"code": "x", "message": "no", "fix": "yes"})
    page = visit(color_scheme=theme)
    page.get_by_label("checked").first.check()
    page.get_by_role("button", name="Export labels").click()
    page.get_by_role("alert").get_by_text("yes").wait_for()
    page.get_by_role("button", name="Next to correct").click()
    page.wait_for_selector("#sentences li.next")
    word(page, "Bo").click()
    page.evaluate(
        """() => { for (let i = 0; i < 10; i++) for (const kind of ["chip", "entity", "entity gone", "entity come"]) {
          const box = document.createElement("span"), type = document.createElement("span");
          box.className = `${kind} t${i}`; type.className = "type"; type.textContent = "type"; box.append("word", type);
          document.querySelector("main").append(box); } }"""
    )
    poor = page.evaluate(_CONTRAST)
    assert poor["texts"] > 80
    assert poor["found"] == []


_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (colour) => { const [r, g, b] = rgba(colour).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor; if (rgba(colour)[3] === 255) return colour; }
    return "white"; };
  const found = []; let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility()) continue;
    if (node.closest(":disabled, option")) continue;
    texts += 1;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push([node.className, node.parentElement.className, walker.currentNode.textContent, ratio]);
  }
  return { found, texts };
}"""
