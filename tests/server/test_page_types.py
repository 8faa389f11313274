"""Types on the page: colours and keys that stay, guidelines, how sure the tagger is; and labels of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from page_browser import Pretended, entities, step, stored, tick, word

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]


def looks(page: Page) -> dict[str, tuple[str, str]]:
    """Key and colour of each type that is offered."""
    rows = page.locator("#types [data-type]").evaluate_all(
        "all => all.map((button) => [button.dataset.type, button.querySelector('kbd')?.textContent ?? '', "
        "button.className.match(/t\\d/)[0]])"
    )
    return {name: (key, colour) for name, key, colour in rows}


def name_type(page: Page, words: str, label: str) -> None:
    word(page, words).click()
    page.get_by_label("New type").fill(label)
    page.keyboard.press("Enter")


def test_colours_and_keys_stay_whatever_types_come(visit: Open, server: Pretended) -> None:
    page = visit()
    name_type(page, "velmorin", "drug")
    name_type(page, "train", "vehicle")
    before = looks(page)
    assert before == {"name": ("1", "t0"), "drug": ("2", "t1"), "vehicle": ("3", "t2")}
    server.learned, server.versions, server.current = {"today": "a-date", "drug": "drug"}, ["v1", "v2"], "v2"
    page.reload()  # the server knows a type that comes first in its list
    page.locator("#types [data-type=a-date]").wait_for(state="attached")
    assert looks(page) == {**before, "a-date": ("4", "t3")}
    server.learned, server.versions, server.current = {}, ["v1"], "v1"
    page.reload()
    page.wait_for_selector("#sentences .entity")
    assert looks(page) == {**before, "a-date": ("4", "t3")}
    word(page, "today").click()
    page.keyboard.press("3")
    assert entities(page, 1) == ["velmorin drug", "Ada name", "today vehicle"]


def test_a_hidden_type_keeps_its_place(visit: Open) -> None:
    page = visit()
    name_type(page, "velmorin", "durg")
    name_type(page, "train", "vehicle")
    word(page, "velmorin").click()
    page.keyboard.press("Delete")
    page.get_by_role("button", name="Guidelines of durg").click()
    page.get_by_role("button", name="Hide this type").click()
    assert looks(page) == {"name": ("1", "t0"), "vehicle": ("3", "t2")}
    page.keyboard.press("2")  # nobody's key
    assert entities(page, 1) == ["Ada name"]
    page.get_by_role("button", name="Undo: hiding “durg”").click()
    assert looks(page)["durg"] == ("2", "t1")
    page.get_by_role("button", name="Guidelines of vehicle").click()
    assert not page.get_by_role("button", name="Hide this type").is_visible()  # a label has it


def test_a_type_has_guidelines(visit: Open) -> None:
    page = visit()
    page.get_by_role("button", name="Guidelines of name").click()
    page.locator("#guidelines-text").fill("People and places, <b>without</b> titles.")
    page.get_by_role("button", name="Save").click()
    shown = page.locator("#types .guideline")
    assert shown.inner_text() == "People and places, <b>without</b> titles."
    page.get_by_role("button", name="Undo: guidelines of “name”").click()
    assert shown.count() == 0
    page.get_by_role("button", name="Redo: guidelines of “name”").click()
    page.reload()
    assert shown.inner_text() == "People and places, <b>without</b> titles."
    page.get_by_role("button", name="Guidelines of name").click()
    page.locator("#guidelines-text").fill("other")
    page.get_by_role("button", name="Cancel").click()
    assert shown.inner_text() == "People and places, <b>without</b> titles."
    page.set_viewport_size({"width": 360, "height": 740})
    word(page, "Ada").click()
    assert page.locator("#chosen-guideline").inner_text() == "People and places, <b>without</b> titles."


def test_confidence_is_seen_without_pointing(visit: Open, server: Pretended) -> None:
    server.scores = {"Ada": 0.95, "Bo": 0.6, "Leeds": 0.43}
    page = visit()
    line = """e => { const s = getComputedStyle(e);
      return [s.borderBottomStyle, parseFloat(s.borderBottomWidth), s.backgroundColor]; }"""
    sure, unsure, doubtful = (page.locator("#sentences .entity").nth(i).evaluate(line) for i in range(3))
    assert (sure[0], unsure[0], doubtful[0]) == ("solid", "dashed", "dotted")
    assert sure[1] > unsure[1]
    assert len({sure[2], unsure[2], doubtful[2]}) == 3
    legend = page.locator(".sure .entity")
    assert [legend.nth(i).evaluate(line)[0] for i in range(5)] == ["solid", "solid", "dashed", "dotted", "solid"]
    assert legend.all_inner_texts() == ["90 % or more", "70 %", "50 %", "less", "labelled"]
    word(page, "Leeds").click()
    page.keyboard.press("1")  # now it is the annotator's word
    assert "c3" not in page.locator("#sentences .entity").nth(2).get_attribute("class").split()


OLD: dict[str, Any] = {
    "form": 1,
    "text": "we gave velmorin to Ada.\nnothing else.",
    "entries": [
        [
            "we gave velmorin to Ada .",
            {
                "tokens": ["we", "gave", "velmorin", "to", "Ada", "."],
                "gaps": ["", " ", " ", " ", " ", ""],
                "entities": [
                    {"start": 2, "end": 3, "label": "drug"},
                    {"start": 4, "end": 5, "label": "name", "confidence": 0.9},
                ],
                "checked": True,
            },
        ],
        [
            "nothing else .",
            {"tokens": ["nothing", "else", "."], "gaps": ["", " ", ""], "entities": [], "checked": False},
        ],
    ],
    "order": ["drug", "name"],
    "job": None,
    "compared": None,
}


def visit_with_old_labels(visit: Open, before_script: str = "") -> Page:
    page = visit("")
    page.get_by_text("1 types").wait_for()
    page.evaluate("old => { localStorage.clear(); localStorage.setItem('nershift', old); }", json.dumps(OLD))
    page.add_init_script(before_script)
    page.reload()
    page.locator("#labels-count", has_text="1 accepted sentence").wait_for(state="attached")
    return page


def test_labels_of_the_earlier_page_are_kept(visit: Open) -> None:
    page = visit_with_old_labels(visit)
    assert page.evaluate("localStorage.getItem('nershift')") is None
    assert {k: (v["accepted"], v["entities"]) for k, v in stored(page).items()} == {
        "we gave velmorin to Ada .": (
            True,
            [{"start": 2, "end": 3, "label": "drug"}, {"start": 4, "end": 5, "label": "name"}],
        ),
        "nothing else .": (False, []),
    }
    assert looks(page) == {"drug": ("1", "t0"), "name": ("2", "t1")}
    step(page, "correct")
    page.locator("#sentences .entity").first.wait_for()
    assert entities(page, 1) == ["velmorin drug", "Ada name"]
    assert (tick(page, 1).is_checked(), tick(page, 2).is_checked()) == (True, False)


def test_labels_of_the_earlier_page_survive_a_storage_with_little_room(visit: Open) -> None:
    """Old and new do not fit side by side: the old ones make room."""
    page = visit_with_old_labels(
        visit,
        """const write = Storage.prototype.setItem;
        Storage.prototype.setItem = function (name, value) {
          if (name.startsWith("nershift/labels") && this.getItem("nershift")) throw new DOMException("full");
          write.call(this, name, value); };""",
    )
    assert len(stored(page)) == 2


def test_labels_of_the_earlier_page_stay_where_nothing_can_be_written(visit: Open) -> None:
    page = visit("")
    page.get_by_text("1 types").wait_for()
    page.evaluate("old => localStorage.setItem('nershift', old)", json.dumps(OLD))
    page.add_init_script(
        """const write = Storage.prototype.setItem;
        Storage.prototype.setItem = function (name, value) {
          if (name !== "nershift") throw new DOMException("full");
          write.call(this, name, value); };"""
    )
    page.reload()
    page.get_by_role("alert").get_by_text("The browser keeps no more labels").wait_for()
    assert json.loads(page.evaluate("localStorage.getItem('nershift')")) == OLD
