"""The page in a real browser, against a pretended server: text in, versions, labels out, and what can go wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from page_browser import STATIC, Pretended, entities, step, stored, tick, watched, word

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]


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
    assert page.locator("#found").inner_text() == "3 sentences, 3 entities predicted by v1"
    assert page.locator("#sentences .entity").first.get_attribute("title") == "name, confidence 93 %"
    word(page, "Ada").click()
    assert page.locator("#chosen").inner_text() == "Ada"
    assert page.locator("#chosen-what").inner_text() == "name, confidence 93 %"
    page.get_by_role("group", name="name, confidence 93 %").first.wait_for()


def test_adapting_shows_before_and_after(visit: Open, server: Pretended) -> None:
    page = visit()
    assert page.locator("#adapt").is_disabled()
    assert not page.locator("#compare").is_visible()
    word(page, "velmorin").click()
    page.get_by_label("New type").fill("drug")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    server.job = "training"
    step(page, "adapt")
    page.get_by_role("button", name="Adapt", exact=True).click()
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
    page.get_by_role("button", name="Download version v1").and_(page.locator(":focus")).wait_for()
    assert server.current == "v1"
    step(page, "correct")
    page.get_by_text("3 entities predicted by v1").wait_for()
    assert len(server.sent("tag")) == 3  # the text, again after the reload, and by v2: what is known is not asked again


def test_a_cancelled_job_changes_nothing(visit: Open, server: Pretended) -> None:
    page = visit()
    tick(page, 1).check()
    server.job = "training"
    step(page, "adapt")
    page.get_by_role("button", name="Adapt", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    server.job = "cancelled"
    page.get_by_text("Cancelled; nothing has changed.").wait_for()
    assert not page.locator("#job").is_visible()
    assert page.locator("#adapt").is_enabled()


def test_a_job_lost_with_the_server_is_said(visit: Open, server: Pretended) -> None:
    page = visit()
    tick(page, 1).check()
    server.job = "training"
    step(page, "adapt")
    page.get_by_role("button", name="Adapt", exact=True).click()
    page.get_by_text("half way").wait_for()
    server.refuse["jobs/j1"] = (404, {"code": "unknown", "message": "there is no such job", "fix": ""})
    page.get_by_role("alert").get_by_text("Press Adapt again.").wait_for()
    assert page.locator("#adapt").is_enabled()
    assert page.evaluate("localStorage.getItem('nershift/page/job')") == "null"


def test_failures_are_announced_with_the_way_out(visit: Open, server: Pretended) -> None:
    page = visit()
    problem = {"code": "busy", "message": "an adaptation is running", "fix": "wait for it, or cancel it"}
    server.refuse["adapt"] = (429, problem)
    tick(page, 1).check()
    step(page, "adapt")
    page.get_by_role("button", name="Adapt", exact=True).click()
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
    tick(page, 2).check()
    other.locator("#labels-count", has_text="1 accepted sentence").wait_for(state="attached")
    assert tick(other, 2).is_checked()
    page.reload()
    page.wait_for_selector("#sentences li.accepted")
    step(page, "text")
    page.get_by_role("button", name="Show labelled sentences").click()
    page.locator("#sentences li:only-child").wait_for()
    assert page.locator("#sentences .words").inner_text() == "nothing else was said."
    step(page, "adapt")
    page.get_by_role("button", name="Delete all labels").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("0 accepted sentences").wait_for()
    assert stored(page) == {}


def test_full_storage_is_said(visit: Open) -> None:
    page = visit()
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('full') } }")
    tick(page, 1).check()
    page.get_by_role("alert").get_by_text("Export the labels now").wait_for()
    assert page.locator("#labels-count").text_content() == "1 accepted sentence"  # still there to be exported


def test_export_is_a_download_of_accepted_sentences(visit: Open, server: Pretended) -> None:
    page = visit()
    tick(page, 2).check()
    word(page, "Bo").click()
    page.keyboard.press("Delete")  # a draft: not exported
    step(page, "adapt")
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(visit: Open, server: Pretended, theme: str) -> None:
    """WCAG AA: at least 4.5 to 1 between any text and what lies behind it."""
    server.learned, server.versions, server.current = {"velmorin": "drug"}, ["v1", "v2"], "v2"
    server.refuse["export"] = (503, {"code": "x", "message": "no", "fix": "yes"})
    page = visit(color_scheme=theme)
    page.keyboard.press("Space")
    step(page, "adapt")
    page.get_by_role("button", name="Export labels").click()
    page.get_by_role("alert").get_by_text("yes").wait_for()
    page.locator("#compare").wait_for()
    page.get_by_label("all sentences").check()
    page.evaluate(
        """() => { for (let i = 0; i < 10; i++) 
          for (const kind of ["chip", "entity c0", "entity c3", "entity gone", "entity come"]) {
          const box = document.createElement("span"), type = document.createElement("span");
          box.className = `${kind} t${i}`; type.className = "type"; type.textContent = "type"; box.append("word", type);
          document.querySelector("#adapt-form").append(box); } }"""
    )
    poor = [page.evaluate(_CONTRAST)]
    step(page, "correct")
    word(page, "Bo").click()
    page.locator(".keys summary").click()
    poor.append(page.evaluate(_CONTRAST))
    page.get_by_role("button", name="Guidelines of name").click()
    poor.append(page.evaluate(_CONTRAST))
    page.keyboard.press("Escape")
    step(page, "text")
    poor.append(page.evaluate(_CONTRAST))
    assert sum(shown["texts"] for shown in poor) > 200
    assert [text for shown in poor for text in shown["found"]] == []


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
