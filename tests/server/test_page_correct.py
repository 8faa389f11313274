"""Correcting on the page: choosing words, types, borders, accepting, undoing; by mouse, keyboard and finger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from page_browser import TEXT, Pretended, entities, focused, stored, tick, word

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
LONG = "then she slept after Tripumab was given"


@pytest.fixture
def wrong_border(server: Pretended, visit: Open) -> Page:
    """A page on which the tagger took one word too many: [after Tripumab]."""
    server.phrases = ("after Tripumab",)
    page = visit(LONG)
    assert entities(page, 1) == ["after Tripumab name"]
    return page


def drag(page: Page, start: Any, to: Any) -> None:
    """Press at the middle of one box and let go at the middle of another."""
    boxes = [node.bounding_box() for node in (start, to)]
    (x, y), (to_x, to_y) = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(to_x, to_y, steps=4)
    page.mouse.up()


def test_the_mouse_selects_words_and_names_a_new_type(visit: Open) -> None:
    page = visit()
    drag(page, word(page, "night"), word(page, "train"))
    assert page.locator("#chosen").inner_text() == "night train"
    page.get_by_label("New type").fill("two words")
    page.keyboard.press("Enter")
    assert entities(page, 3) == ["Bo name", "Leeds name"]  # refused: a type is one word
    page.get_by_label("New type").fill("vehicle")
    page.keyboard.press("Enter")
    assert entities(page, 3) == ["Bo name", "Leeds name", "night train vehicle"]
    assert focused(page) == "night"
    word(page, "Leeds").click()
    page.get_by_role("button", name="2 vehicle").click()  # the new type is offered from now on
    assert entities(page, 3) == ["Bo name", "Leeds vehicle", "night train vehicle"]
    word(page, "Bo").click()
    page.get_by_role("button", name="Remove").click()
    assert entities(page, 3) == ["Leeds vehicle", "night train vehicle"]
    page.get_by_role("button", name="Reset sentence 3 to the prediction").click()
    assert entities(page, 3) == ["Bo name", "Leeds name"]
    assert stored(page) == {}


def test_correcting_a_word_does_not_accept_the_sentence(visit: Open) -> None:
    page = visit()
    word(page, "Bo").click()
    page.keyboard.press("Delete")
    assert not tick(page, 3).is_checked()
    assert page.locator("#labels-count").text_content() == "0 accepted sentences"
    assert [e["accepted"] for e in stored(page).values()] == [False]
    page.keyboard.press("Space")
    assert tick(page, 3).is_checked()
    assert page.locator("#labels-count").text_content() == "1 accepted sentence"
    word(page, "Leeds").click()
    page.keyboard.press("Delete")  # who accepted the whole sentence may mend it
    assert tick(page, 3).is_checked()
    assert [e["entities"] for e in stored(page).values()] == [[]]


def test_one_key_accepts_and_goes_on(visit: Open) -> None:
    page = visit()
    assert focused(page) == "we"  # after tagging, work can begin
    page.keyboard.press("Space")
    assert focused(page) == "nothing"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")  # from the last to the first that is open
    assert focused(page) == "nothing"
    page.keyboard.press("Space")
    assert page.locator("#status").inner_text() == "Every sentence here is accepted."
    assert page.locator("#progress-text").inner_text() == "3 of 3 accepted"
    page.keyboard.press("Shift+Space")
    assert not tick(page, 2).is_checked()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("n")  # skips what is accepted
    assert focused(page) == "nothing"
    tick(page, 2).check()
    page.get_by_role("button", name="Undo: acceptance").click()
    page.get_by_role("button", name="Accept, next").click()
    assert tick(page, 2).is_checked()


def test_what_is_not_tagged_cannot_be_accepted(visit: Open, server: Pretended) -> None:
    page = visit()
    page.evaluate("localStorage.setItem('nershift/page/source', '\"labelled\"')")
    page.keyboard.press("Space")
    server.refuse["tag"] = (503, {"code": "timeout", "message": "no answer", "fix": ""})
    page.reload()
    page.get_by_role("alert").get_by_text("no answer").wait_for()
    page.get_by_role("button", name="Reset sentence 1").click()
    assert page.locator("#sentences li.waiting").count() == 1
    page.keyboard.press("Space")
    assert page.locator("#status").inner_text() == "This sentence is not tagged yet."
    assert stored(page) == {}


def test_a_second_click_chooses_the_word_alone(wrong_border: Page) -> None:
    page = wrong_border
    word(page, "Tripumab").click()
    assert page.locator("#chosen").inner_text() == "after Tripumab"
    word(page, "Tripumab").click()
    assert page.locator("#chosen").inner_text() == "Tripumab"
    page.keyboard.press("1")
    assert entities(page, 1) == ["Tripumab name"]


@pytest.mark.parametrize(("edge", "to", "left"), [("start", "Tripumab", "Tripumab"), ("end", "after", "after")])
def test_the_mouse_drags_either_border(wrong_border: Page, edge: str, to: str, left: str) -> None:
    page = wrong_border
    drag(page, page.locator(f'.grip[data-edge="{edge}"]'), word(page, to))
    assert entities(page, 1) == [f"{left} name"]
    outwards = {"start": "then", "end": "given"}[edge]
    drag(page, page.locator(f'.grip[data-edge="{edge}"]'), word(page, outwards))
    longer = {"start": "then she slept after Tripumab", "end": "after Tripumab was given"}[edge]
    assert entities(page, 1) == [f"{longer} name"]


def test_the_keyboard_moves_either_border(wrong_border: Page) -> None:
    page, press = wrong_border, wrong_border.keyboard.press
    word(page, "Tripumab").focus()
    press("s")  # it starts here
    assert entities(page, 1) == ["Tripumab name"]
    assert focused(page) == "Tripumab"
    for _ in range(2):
        press("ArrowRight")
    press("e")  # the one before ends here
    assert entities(page, 1) == ["Tripumab was given name"]
    word(page, "slept").focus()
    press("s")  # the next one starts here
    assert entities(page, 1) == ["slept after Tripumab was given name"]
    press("e")
    assert entities(page, 1) == ["slept name"]
    word(page, "then").focus()
    press("e")
    assert page.locator("#status").inner_text() == "No entity could end here."


def test_buttons_move_either_border(wrong_border: Page) -> None:
    page = wrong_border
    word(page, "after").click()
    for name, words in [
        ("Start one word later", "Tripumab"),
        ("End one word later", "Tripumab was"),
        ("Start one word earlier", "after Tripumab was"),
        ("End one word earlier", "after Tripumab"),
    ]:
        page.get_by_role("button", name=name).click()
        assert entities(page, 1) == [f"{words} name"]


def test_a_border_stops_at_the_neighbour(visit: Open) -> None:
    page = visit("so Ada and Bo left")
    grips = page.locator('.grip[data-edge="start"]')
    drag(page, grips.nth(1), word(page, "so"))
    assert entities(page, 1) == ["Ada name", "and Bo name"]


def test_fingers_tap_words_and_move_borders(server: Pretended, visit: Open) -> None:
    server.phrases = ("after Tripumab",)
    page = visit(LONG, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    word(page, "Tripumab").tap()
    assert page.locator("#chosen").inner_text() == "after Tripumab"
    page.get_by_role("button", name="Start one word later").tap()
    assert entities(page, 1) == ["Tripumab name"]
    page.get_by_role("button", name="Start one word earlier").tap()
    word(page, "after").tap()
    word(page, "Tripumab").tap()
    word(page, "Tripumab").tap()  # again: the word alone
    page.get_by_role("button", name="1 name").tap()
    assert entities(page, 1) == ["Tripumab name"]
    word(page, "she").tap()
    page.get_by_role("button", name="End one word later").tap()
    page.get_by_role("button", name="1 name").tap()
    assert entities(page, 1) == ["she slept name", "Tripumab name"]


def test_fingers_drag_a_border(server: Pretended, visit: Open) -> None:
    """A handle takes a touch for itself, instead of letting it scroll."""
    server.phrases = ("after Tripumab",)
    page = visit(LONG, has_touch=True)
    word(page, "after").click()
    grip, to = (node.bounding_box() for node in (page.locator('.grip[data-edge="start"]'), word(page, "Tripumab")))
    touch = page.context.new_cdp_session(page)

    def send(kind: str, box: dict[str, float]) -> None:
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [] if kind == "touchEnd" else [at]})

    for kind, box in (("touchStart", grip), ("touchMove", to), ("touchEnd", to)):
        send(kind, box)
    assert entities(page, 1) == ["Tripumab name"]


def test_everything_can_be_undone_and_done_again(wrong_border: Page) -> None:
    page, press = wrong_border, wrong_border.keyboard.press
    states = [(entities(page, 1), tick(page, 1).is_checked(), page.locator("#types [data-type]").all_inner_texts())]

    def did() -> None:
        states.append(
            (entities(page, 1), tick(page, 1).is_checked(), page.locator("#types [data-type]").all_inner_texts())
        )
        assert states[-1] != states[-2]

    word(page, "Tripumab").focus()
    press("s")  # a border
    did()
    press("Delete")
    did()
    page.get_by_label("New type").fill("drug")  # a name of a type
    press("Enter")
    did()
    press("Space")  # acceptance
    did()
    press("Shift+Space")
    did()
    page.get_by_role("button", name="Reset sentence 1").click()
    did()
    press("Space")
    did()
    page.locator("#step-adapt").click()
    page.get_by_role("button", name="Delete all labels").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("0 accepted sentences").wait_for()
    page.locator("#step-correct").click()
    did()
    for keys, order in (("Control+z", states[-2::-1]), ("Control+Shift+Z", states[1:])):
        for state in order:
            press(keys)
            found = page.locator("#types [data-type]").all_inner_texts()
            assert (entities(page, 1), tick(page, 1).is_checked(), found) == state
    press("Control+z")
    press("Control+y")
    assert (entities(page, 1), tick(page, 1).is_checked()) == states[-1][:2]
    press("Control+y")
    assert page.locator("#status").inner_text() == "Nothing to be done again."
    page.get_by_role("button", name="Undo: deletion of all labels").click()
    page.get_by_role("button", name="Redo: deletion of all labels").click()
    assert page.locator("#redo").is_disabled()


def test_undoing_leaves_what_another_tab_changed_since(visit: Open) -> None:
    page = visit()
    page.keyboard.press("Space")
    other = page.context.new_page()
    other.goto(page.url)
    tick(other, 1).uncheck()
    page.wait_for_function("!document.querySelector('#sentences input').checked")
    page.get_by_role("button", name="Undo: acceptance").click()
    assert "but for what was changed elsewhere" in page.locator("#status").inner_text()
    assert stored(page) == {}


def test_undo_in_a_field_is_the_field_s_own(visit: Open) -> None:
    page = visit()
    page.keyboard.press("Space")
    page.get_by_label("New type").fill("drug")
    page.keyboard.press("Control+z")
    assert tick(page, 1).is_checked()


def test_the_keyboard_does_it_all(visit: Open) -> None:
    page = visit()
    press = page.keyboard.press
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        press(key)
    assert focused(page) == "1name"  # the first type
    press("Escape")
    assert focused(page) == "velmorin"
    press("Enter")
    press("ArrowDown")  # from the one known type to the field for a new one
    page.keyboard.type("drug")
    press("Enter")
    assert entities(page, 1) == ["velmorin drug", "Ada name"]
    assert focused(page) == "velmorin"
    press("Delete")
    assert entities(page, 1) == ["Ada name"]
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    assert page.locator('[aria-selected="true"]').all_inner_texts() == ["velmorin", "to", "Ada"]
    press("1")  # what it overlaps gives way
    assert entities(page, 1) == ["velmorin to Ada name"]
    press("End")
    press("ArrowRight")
    assert focused(page) == "nothing"
    press("ArrowLeft")
    assert focused(page) == "."
    press("Control+ArrowLeft")
    assert focused(page) == "velmorin"
    press("ArrowDown")
    press("ArrowDown")
    press("Control+ArrowRight")
    press("Control+ArrowRight")
    assert focused(page) == "Leeds"
    press("Home")
    assert focused(page) == "then"


def test_the_sentences_are_one_stop_of_tab(visit: Open) -> None:
    page = visit()
    assert page.locator('.word[tabindex="0"]').all_inner_texts() == ["we"]
    word(page, "left").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator('.word[tabindex="0"]').all_inner_texts() == ["for"]
    page.keyboard.press("Tab")
    assert tick(page, 3).and_(page.locator(":focus")).count() == 1
    page.keyboard.press("Space")
    assert tick(page, 3).is_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#panel').contains(document.activeElement)")


def test_right_to_left_text_moves_the_other_way(visit: Open) -> None:
    page = visit("ذهب أحمد إلى بغداد")
    page.keyboard.press("ArrowLeft")
    assert focused(page) == "أحمد"


def test_nothing_covers_the_sentences(visit: Open) -> None:
    """The panel stands beside them, on a narrow screen below them, also when words are chosen."""
    for width in (1200, 360):
        page = visit("\n".join([TEXT] * 12), viewport={"width": width, "height": 700})
        word(page, "train").first.click()
        for row in (4, 5):
            box = page.locator(f"#sentences li[data-row='{row - 1}']").bounding_box()
            at = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
            row_there = "([x, y]) => document.elementFromPoint(x, y).closest('li')?.dataset.row"
            assert page.evaluate(row_there, at) == str(row - 1)


def test_a_phone_has_every_step_at_hand(visit: Open) -> None:
    """Steps, *Accept* and, once there, *Adapt* are in sight without scrolling; so is the type of the chosen entity."""
    page = visit("\n".join([TEXT] * 12), viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)

    def in_sight(selector: str) -> bool:
        box = page.locator(selector).bounding_box()
        return box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["y"] >= 0 and box["y"] + box["height"] <= 640

    steps = ("#step-text", "#step-correct", "#step-adapt")
    assert all(map(in_sight, (*steps, "#accept", "#undo", "#new-type")))
    for label in ("a-long-name", "another-long-name", "a-third-long-name"):
        word(page, "train").first.tap()
        page.get_by_label("New type").fill(label)
        page.get_by_role("button", name="Add").tap()
    chosen = "#types [aria-pressed=true]"
    assert page.locator(chosen).get_attribute("data-type") == "a-third-long-name"
    assert in_sight(chosen)
    word(page, "Ada").first.tap()
    assert page.locator(chosen).get_attribute("data-type") == "name"
    assert in_sight(chosen)
    page.locator("#step-adapt").tap()
    assert all(map(in_sight, (*steps, "#adapt")))
    page.locator("#step-text").tap()
    assert all(map(in_sight, (*steps, "#tag-form button")))
