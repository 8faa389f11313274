"""What the page shares through the server: files, labels of several browsers, and the agreement of two annotators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from page_browser import Pretended, entities, focused, step, stored, word

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
LABELLED = [
    {"tokens": ["Ada", "left", "Rome"], "gaps": ["", " ", " "], "entities": [{"start": 2, "end": 3, "label": "city"}]},
    {"tokens": ["Bo", "stayed"], "gaps": ["", " "], "entities": []},
]


def upload(page: Page, *files: tuple[str, str]) -> None:
    sent = [{"name": name, "mimeType": "text/plain", "buffer": text.encode()} for name, text in files]
    page.locator("#upload").set_input_files(sent)


def on_server(page: Page) -> None:
    page.locator("#saved", has_text=": on the server").wait_for()


def name_oneself(page: Page, name: str) -> None:
    step(page, "text")
    page.get_by_role("combobox", name="Your name").fill(name)
    page.keyboard.press("Enter")


def test_an_uploaded_file_is_tagged_and_opens_again(visit: Open, server: Pretended) -> None:
    page = visit(text="")
    upload(page, ("notes.txt", "Ada left\nnothing here"), ("more.txt", "Bo stayed"))
    page.get_by_text("2 sentences of notes.txt, 1 entity predicted by v1").wait_for()
    assert [body["files"][0]["name"] for body in server.sent("files") if body] == ["notes.txt", "more.txt"]
    assert entities(page, 1) == ["Ada name"]
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Next file: more.txt").click()
    page.get_by_text("1 sentence of more.txt").wait_for()
    page.reload()
    page.get_by_text("1 sentence of more.txt").wait_for()
    step(page, "text")
    page.get_by_role("button", name="Open all files").click()
    page.get_by_text("3 sentences, 2 entities predicted by v1").wait_for()
    assert focused(page) == "Bo"  # the first that is not accepted


def test_labels_of_a_file_are_shown_and_are_nobody_s_yet(visit: Open, server: Pretended) -> None:
    server.files["f9"] = {"id": "f9", "name": "a.conll", "format": "conll", "sentences": LABELLED}
    page = visit(text="")
    page.get_by_text("0 of 2 sentences accepted · conll, with labels").wait_for()
    page.get_by_role("button", name="a.conll", exact=True).click()
    page.locator("#sentences .entity").first.wait_for()
    assert [entities(page, row) for row in (1, 2)] == [["Rome city"], []]
    assert stored(page) == {}
    page.get_by_label("Order").select_option("least certain first")
    page.keyboard.press("Control+z")
    assert stored(page) == {}


def test_what_can_go_wrong_with_a_file(visit: Open, server: Pretended) -> None:
    server.most = 20
    page = visit(text="")
    page.locator("#upload-format option").nth(1).wait_for(state="attached")
    upload(page, ("long.txt", "word " * 20))
    page.get_by_role("alert").get_by_text("long.txt has 0.0 MB").wait_for()
    server.refuse["files"] = (
        422,
        {"code": "unusable", "message": "a.txt:1: byte 0xe9 is not UTF-8", "fix": "convert it"},
    )
    upload(page, ("a.txt", "x"))
    page.get_by_role("alert").get_by_text("a.txt:1: byte 0xe9 is not UTF-8").wait_for()
    page.get_by_role("alert").get_by_text("convert it").wait_for()
    assert not [body for body in server.sent("files") if body and body["files"][0]["name"] == "long.txt"]


def test_a_file_is_removed_after_a_question(visit: Open, server: Pretended) -> None:
    server.files["f9"] = {"id": "f9", "name": "a.conll", "format": "conll", "sentences": LABELLED}
    page = visit(text="")
    page.get_by_role("button", name="Remove a.conll").click()
    page.get_by_role("button", name="Keep it").click()
    assert server.sent("files/f9") == []
    page.get_by_role("button", name="Remove a.conll").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_timeout(500)
    assert server.sent("files/f9") == [None]


def test_another_browser_has_labels_guidelines_and_keys(visit: Open, server: Pretended) -> None:
    page = visit()
    word(page, "velmorin").click()
    page.get_by_label("New type").fill("drug")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Guidelines of drug").click()
    page.locator("#guidelines-text").fill("Brand names only.")
    page.get_by_role("button", name="Save").click()
    on_server(page)
    page.wait_for_timeout(500)
    other = visit()
    assert entities(other, 1) == ["velmorin drug", "Ada name"]
    assert other.locator("#progress-text").inner_text() == "1 of 3 accepted"
    assert other.locator("#types .guideline").inner_text() == "Brand names only."
    assert (
        other.locator("#types [data-type] ").all_inner_texts() == page.locator("#types [data-type]").all_inner_texts()
    )


def test_nothing_is_lost_while_the_server_does_not_keep_labels(visit: Open, server: Pretended) -> None:
    page = visit()
    on_server(page)
    full = {
        "code": "disk",
        "message": "a file of the server cannot be written (No space left on device)",
        "fix": "room",
    }
    server.refuse["labels"] = (507, full)
    page.keyboard.press("Space")
    page.get_by_role("alert").get_by_text("No space left on device").wait_for()
    assert page.locator("#saved").inner_text() == "Labels: 1 in this browser only"
    page.reload()
    assert len(stored(page)) == 1
    del server.refuse["labels"]
    on_server(page)
    assert [record["accepted"] for record in server.kept["me"].values()] == [True]


def test_a_small_screen_says_what_is_not_on_the_server(visit: Open, server: Pretended) -> None:
    """There is no room for the head there, but what is in this browser only has to be seen."""
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    kept = page.locator("#saved").filter(has_text=": on the server")
    kept.wait_for(state="attached")
    assert not page.locator("#saved").is_visible()
    server.refuse["labels"] = (507, {"code": "disk", "message": "No space left on device", "fix": "room"})
    page.get_by_role("button", name="Accept, next").tap()
    page.get_by_text("Labels: 1 in this browser only").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    del server.refuse["labels"]
    kept.wait_for(state="attached")
    assert not page.locator("#saved").is_visible()


def test_one_sentence_that_the_server_refuses_does_not_hold_up_the_others(visit: Open, server: Pretended) -> None:
    taken = server._sync

    def picky(body: Any) -> dict[str, Any]:
        if any("nothing" in record["tokens"] for record in body["records"]):
            raise PermissionError
        return taken(body)

    answer = server._answer

    def answering(route: Any) -> None:
        try:
            answer(route)
        except PermissionError:
            route.fulfill(status=422, json={"error": {"code": "invalid", "message": "not that one", "fix": ""}})

    server._sync, server._answer = picky, answering  # type: ignore[method-assign]
    page = visit()
    on_server(page)
    page.wait_for_timeout(500)
    for _ in range(3):
        page.keyboard.press("Space")
    page.get_by_role("alert").get_by_text("not that one").wait_for()
    page.locator("#saved", has_text="1 in this browser only").wait_for()
    assert len(server.kept["me"]) == 2


def test_types_that_the_server_refuses_do_not_hold_up_labels(visit: Open, server: Pretended) -> None:
    taken, answer = server._sync, server._answer

    def picky(body: Any) -> dict[str, Any]:
        if body["types"]:
            raise PermissionError
        return taken(body)

    def answering(route: Any) -> None:
        try:
            answer(route)
        except PermissionError:
            route.fulfill(status=413, json={"error": {"code": "types", "message": "too many types", "fix": ""}})

    server._sync, server._answer = picky, answering  # type: ignore[method-assign]
    page = visit()
    page.get_by_role("alert").get_by_text("too many types").wait_for()
    page.keyboard.press("Space")
    page.wait_for_timeout(600)
    on_server(page)
    assert len(server.kept["me"]) == 1


def test_a_server_that_lost_its_labels_gets_them_again(visit: Open, server: Pretended) -> None:
    page = visit()
    page.keyboard.press("Space")
    on_server(page)
    page.wait_for_timeout(500)
    server.kept.clear()
    server.id = "s2"
    page.keyboard.press("Space")
    page.wait_for_timeout(1_000)
    on_server(page)
    assert len(server.kept["me"]) == 2


def test_each_annotator_has_labels_of_their_own(visit: Open, server: Pretended) -> None:
    page = visit()
    page.keyboard.press("Space")
    name_oneself(page, "Zoë Müller")
    page.get_by_role("dialog").get_by_text("You labelled 1 sentence before you chose a name. Copy").wait_for()
    page.get_by_role("button", name="Copy them").click()
    step(page, "correct")
    assert page.locator("#progress-text").inner_text() == "1 of 3 accepted"
    name_oneself(page, "Bo")
    step(page, "correct")
    assert page.locator("#progress-text").inner_text() == "0 of 3 accepted"
    page.keyboard.press("Control+z")  # nothing of Zoë's is undone
    assert page.locator("#status").inner_text() == "Nothing to be undone."
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    on_server(page)
    page.wait_for_timeout(500)
    assert {name: len(labels) for name, labels in server.kept.items()} == {"me": 1, "Zoë Müller": 1, "Bo": 2}
    page.reload()
    page.locator("#saved", has_text="Labels of Bo: on the server").wait_for()


def test_labels_that_others_gave_without_a_name_are_not_taken_for_ones_own(visit: Open, server: Pretended) -> None:
    words = ["nothing", "else", "was", "said", "."]
    server.kept["me"] = {" ".join(words): {"tokens": words, "entities": [], "accepted": True, "changed": 1}}
    page = visit()
    assert page.locator("#progress-text").inner_text() == "1 of 3 accepted"
    name_oneself(page, "Bo")
    page.locator("#saved", has_text="Labels of Bo").wait_for()
    page.wait_for_timeout(300)
    assert not page.get_by_role("dialog").is_visible()


def test_agreement_is_shown_and_taken_home(visit: Open, server: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    server.kept = {"Ada": {"x": {"changed": 1}}, "Bo": {"x": {"changed": 1}}}
    row = {"one": 4, "other": 5, "both": 3}
    found = {
        "one": "Ada",
        "other": "Bo",
        "sentences": 12,
        "tokens": 90,
        "rows": [
            {"type": "drug", "f1": 2 / 3, "kappa": 0.7512, **row},
            {"type": "all", "f1": 2 / 3, "kappa": None, **row},
        ],
        "differing": [{}, {}],
    }
    server.json["agreement"] = found
    page = visit()
    step(page, "adapt")
    page.get_by_text("12 sentences accepted by both, 2 of them not alike: F1 67 %, κ –.").wait_for()
    assert page.locator("#agree-table tr").all_inner_texts() == [
        "type\tF1\tκ\tAda\tBo\tsame",
        "drug\t67 %\t0.75\t4\t5\t3",
        "all types\t67 %\t–\t4\t5\t3",
    ]
    for name, suggested in (("Table (CSV)", "agreement.csv"), ("With differences (JSON)", "agreement.json")):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        assert download.value.suggested_filename == suggested


def test_alone_there_is_no_agreement(visit: Open) -> None:
    page = visit()
    step(page, "adapt")
    page.locator("#adapt").wait_for()
    assert not page.locator("#agreement").is_visible()
