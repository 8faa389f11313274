"""Many sentences on the page: order, filters, progress, and how little is done for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from page_browser import Pretended, focused, word

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
MANY = "\n".join(f"sentence {i} is about Ada{i} and the weather of day {i}" for i in range(120))


def numbers(page: Page) -> list[str]:
    return page.locator("#sentences .number").all_text_contents()


def test_the_least_certain_come_first_on_request(visit: Open, server: Pretended) -> None:
    server.doubts = {"nothing": 0.9, "Bo": 0.5}
    page = visit()
    assert numbers(page) == ["1", "2", "3"]
    page.get_by_label("Order").select_option("least certain first")
    assert numbers(page) == ["2", "3", "1"]
    word(page, "nothing").click()
    page.keyboard.press("Space")
    assert focused(page) == "then"
    assert numbers(page) == ["2", "3", "1"]  # nothing moves under one's hands
    page.reload()
    page.locator("#sentences li[data-row='2']").wait_for()
    assert numbers(page) == ["2", "3", "1"]
    page.get_by_label("Order").select_option("as given")
    assert numbers(page) == ["1", "2", "3"]


def test_what_is_shown_can_be_filtered(visit: Open) -> None:
    page = visit()
    word(page, "velmorin").click()
    page.get_by_label("New type").fill("drug")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    page.get_by_label("With type").select_option("name")
    assert numbers(page) == ["1", "3"]
    assert "2 shown of 3 sentences" in page.locator("#found").inner_text()
    page.get_by_label("With type").select_option("drug")
    assert numbers(page) == ["1"]
    page.get_by_label("Show").select_option("not accepted")
    assert page.locator("#no-sentences").inner_text() == "No sentence fits what is to be shown."
    page.get_by_label("With type").select_option("any")
    assert numbers(page) == ["2", "3"]
    word(page, "nothing").click()
    page.keyboard.press("Space")
    assert numbers(page) == ["2", "3"]  # it stays in sight until asked for again
    page.get_by_label("Show").select_option("accepted")
    assert numbers(page) == ["1", "2"]


def test_progress_is_shown_in_every_step(visit: Open) -> None:
    page = visit()
    page.keyboard.press("Space")
    assert page.locator("#progress").evaluate("bar => bar.value / bar.max") == 1 / 3
    page.locator("#step-adapt").click()
    assert page.locator(".steps").inner_text().split("\n") == [
        "1",
        "Get text",
        "3 sentences",
        "2",
        "Correct",
        "1 of 3",
        "3",
        "Adapt",
        "v1",
    ]
    assert page.locator('[aria-current="step"]').inner_text().startswith("3")


def test_text_goes_to_the_server_in_parts(visit: Open, server: Pretended) -> None:
    page = visit("\n".join(f"line {i} " + "word " * 100 for i in range(100)))
    page.locator("#sentences li[data-row='99']").wait_for()
    sizes = [len(body["texts"][0]) for body in server.sent("tag")]
    assert len(sizes) == 3
    assert max(sizes) <= 20_000
    server.versions, server.current = ["v1", "v2"], "v2"
    page.reload()
    page.get_by_text("100 sentences, 0 entities predicted by v2").wait_for()


def test_far_sentences_are_text_until_they_come_near(visit: Open) -> None:
    page = visit(MANY)
    drawn = page.locator("#sentences li:has(.word)")
    assert 20 <= drawn.count() < 60
    assert page.locator("#sentences li[data-row='119']").text_content() == MANY.split("\n")[-1]
    page.locator("#sentences li[data-row='119']").scroll_into_view_if_needed()
    page.locator("#sentences li[data-row='119'] .word").first.wait_for()
    assert drawn.count() < 120


def test_one_key_a_sentence_where_the_prediction_is_right(visit: Open) -> None:
    """And each key draws no more than the sentence itself and the next again, however many there are."""
    page = visit(MANY)
    page.evaluate(
        """() => { window.most = 0; new MutationObserver((all) => {
          const drawn = (one) => [...one.removedNodes].some((node) => node.role === "listbox"); // again
          const again = (one) => (one.type === "attributes" ? !one.target.matches("li") : drawn(one));
          const rows = all.filter(again).map((one) => one.target.closest?.("#sentences li")).filter(Boolean);
          window.most = Math.max(window.most, new Set(rows).size);
        }).observe(document.querySelector("#sentences"), { subtree: true, childList: true, attributes: true }); }"""
    )
    for _ in range(30):
        page.keyboard.press("Space")
    assert page.locator("#progress-text").inner_text() == "30 of 120 accepted"
    assert focused(page) == "sentence"
    assert page.evaluate("Number(document.activeElement.closest('li').dataset.row)") == 30
    assert page.evaluate("window.most") == 2


def test_what_is_out_of_sight_is_neither_laid_out_nor_painted(visit: Open) -> None:
    """So a key costs the same in any queue; one still gets everywhere by keys, and by looking for words."""
    page = visit(MANY)
    rendered = """() => [...document.querySelectorAll('#sentences > ol')].map(
      (part) => part.firstChild.checkVisibility({ contentVisibilityAuto: true }))"""
    assert page.evaluate(rendered)[0]
    assert not page.evaluate(rendered)[-1]
    for _ in range(119):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("Number(document.activeElement.closest('li').dataset.row)") == 119
    page.locator("#sentences li[data-row='119'] .entity").first.wait_for()
    assert page.evaluate(rendered)[-1]
    assert page.get_by_text("sentence 3 is about Ada3").count() == 1


def test_counts_are_right_whatever_was_done_and_undone(visit: Open) -> None:
    """They are kept up to date, not made anew: of sentences that are there twice, of others' deeds, of all deleted."""
    page = visit("Ada left.\nnobody left.\nAda left.\nBo met Cy.")

    def told() -> tuple[str, str, str]:
        types = page.locator("#types li").all_inner_texts()
        return page.locator("#progress-text").inner_text(), page.locator("#labels-count").text_content(), types[0]

    word(page, "Ada").first.click()
    for _ in range(3):
        page.keyboard.press("Space")  # the first is the third, too
    everything = ("4 of 4 accepted", "3 accepted sentences, 1 of them without entities")
    assert told()[:2] == everything
    assert "3 labelled" in told()[2]
    page.keyboard.press("Control+z")
    assert told()[:2] == ("3 of 4 accepted", "2 accepted sentences, 1 of them without entities")
    assert "1 labelled" in told()[2]
    page.keyboard.press("Control+y")
    assert told()[:2] == everything
    other = page.context.new_page()
    other.goto(page.url)
    for one in (page, other):  # what is still being sent would be written again
        one.locator("#saved", has_text=": on the server").wait_for()
    kept = "Object.keys(localStorage).filter((name) => name.includes('/labels/'))"
    other.evaluate(f"{kept}.forEach((name) => localStorage.removeItem(name))")
    page.get_by_text("0 of 4 accepted").wait_for()
    assert told()[1] == "0 accepted sentences"
    assert "labelled" not in told()[2]
    other.close()


def test_the_sentence_one_is_at_stays_in_sight(visit: Open) -> None:
    page = visit(MANY)
    for _ in range(25):
        page.keyboard.press("Space")
        inside = """() => { const box = document.querySelector(".scroll").getBoundingClientRect(),
          row = document.activeElement.closest("li").getBoundingClientRect();
          return box.top <= row.top && row.bottom <= box.bottom; }"""
        assert page.evaluate(inside)
