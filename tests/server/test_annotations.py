"""Labels that the server keeps: merged by time, added to a file that crashes and full disks do not harm, compared."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
from nershift.errors import CheckpointError
from nershift.server import annotations as module
from nershift.server import record_log
from nershift.server.annotations import Annotations
from nershift.server.refusals import Refusal

WORDS = ["Ada", "saw", "Rome"]


def said(words: list[str], changed: int, *entities: tuple[int, int, str], accepted: bool = True) -> dict[str, Any]:
    rows = [{"start": a, "end": b, "label": label} for a, b, label in entities]
    return {"tokens": words, "gaps": [], "entities": rows, "accepted": accepted, "changed": changed}


def named(name: str, changed: int, guideline: str = "") -> dict[str, Any]:
    return {"name": name, "guideline": guideline, "hidden": False, "changed": changed}


class Browser:
    """Knows what a browser knows of the labels of an annotator."""

    def __init__(self, kept: Annotations, annotator: str = "Ada") -> None:
        self.kept, self.annotator, self.known, self.at = kept, annotator, "", (0, 0)

    def sync(self, *records: dict[str, Any], types: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
        answer = json.loads(self.kept.sync(self.annotator, self.known, self.at, records, types))
        self.known, self.at = answer["id"], (answer["at"], answer["types_at"])
        return dict(answer)


def test_what_one_browser_says_another_hears(tmp_path: Path) -> None:
    kept = Annotations(tmp_path)
    first, second, other = Browser(kept), Browser(kept), Browser(kept, "Bo")
    first.sync(said(WORDS, 5, (0, 1, "PER")), types=(named("PER", 1, "people"),))
    heard = second.sync()
    assert heard["records"] == [said(WORDS, 5, (0, 1, "PER"))]
    assert heard["types"] == [named("PER", 1, "people")]
    assert other.sync()["records"] == []  # labels are each annotator's own, types are not
    assert second.sync()["records"] == []
    second.sync({"tokens": WORDS, "deleted": True, "changed": 6})
    assert first.sync()["records"] == [{"tokens": WORDS, "deleted": True, "changed": 6}]


def test_the_later_change_counts_whichever_arrives_first(tmp_path: Path) -> None:
    kept = Annotations(tmp_path)
    Browser(kept).sync(said(WORDS, 9, (2, 3, "LOC")))
    answer = Browser(kept).sync(said(WORDS, 8), said(WORDS, 7, (0, 1, "PER")))
    assert answer["records"] == [said(WORDS, 9, (2, 3, "LOC"))]


def test_a_restart_finds_everything_in_order(tmp_path: Path) -> None:
    browser = Browser(Annotations(tmp_path))
    for number in range(20):
        browser.sync(said([f"w{number % 7}"], number), types=(named(f"T{number}", number),))
    again = Browser(Annotations(tmp_path)).sync()
    assert [r["tokens"][0] for r in again["records"]] == ["w6", "w0", "w1", "w2", "w3", "w4", "w5"]
    assert [t["name"] for t in again["types"]] == [f"T{i}" for i in range(20)]
    assert again["id"] == browser.known
    assert Annotations(tmp_path / "elsewhere").id != browser.known


def test_a_server_that_lost_its_folder_is_told_from_one_that_did_not(tmp_path: Path) -> None:
    browser = Browser(Annotations(tmp_path / "a"))
    browser.sync(said(WORDS, 5))
    browser.kept = Annotations(tmp_path / "b")
    Browser(browser.kept).sync(said(["other"], 3))
    heard = browser.sync()
    assert [r["tokens"] for r in heard["records"]] == [["other"]]  # everything, whatever its numbers


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_crash_in_the_middle_of_a_line_loses_that_line_alone(tmp_path: Path, cut: int) -> None:
    browser = Browser(Annotations(tmp_path))
    browser.sync(said(["first"], 1))
    browser.sync(said(["second"], 2))
    [path] = tmp_path.glob("labels-*.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    kept = Annotations(tmp_path)
    assert [r["tokens"] for r in Browser(kept).sync()["records"]] == [["first"]]
    Browser(kept).sync(said(["third"], 3))
    assert [r["tokens"] for r in Browser(Annotations(tmp_path)).sync()["records"]] == [["first"], ["third"]]


def test_a_damaged_line_names_its_place(tmp_path: Path) -> None:
    Browser(Annotations(tmp_path)).sync(said(WORDS, 1), said(["b"], 2))
    [path] = tmp_path.glob("labels-*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number";1'))
    with pytest.raises(CheckpointError, match=r"labels-\w+\.jsonl:2: not a record"):
        Annotations(tmp_path)


def test_a_full_disk_is_told_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Annotations(tmp_path)
    browser = Browser(kept)
    browser.sync(said(["first"], 1))
    [path] = tmp_path.glob("labels-*.jsonl")
    before = path.read_bytes()

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(record_log.os, "fsync", full)
        with pytest.raises(Refusal, match="No space left") as refused:
            browser.sync(said(["second"], 2))
    assert refused.value.status == 507
    assert path.read_bytes() == before
    assert [r["tokens"] for r in Browser(kept).sync()["records"]] == [["first"]]
    browser.sync(said(["second"], 2))
    assert len(Browser(Annotations(tmp_path)).sync()["records"]) == 2


def test_a_file_full_of_replaced_records_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_log, "_SLACK", 2_000)
    browser = Browser(Annotations(tmp_path))
    for number in range(200):
        browser.sync(said(WORDS, number))
    [path] = tmp_path.glob("labels-*.jsonl")
    assert path.stat().st_size < 4_000
    assert Browser(Annotations(tmp_path)).sync()["records"] == [said(WORDS, 199)]
    assert not list(tmp_path.glob(".*"))


def test_long_answers_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWERED", 500)
    kept = Annotations(tmp_path)
    Browser(kept).sync(*(said([f"w{i}"], 1) for i in range(30)))
    browser, heard, more = Browser(kept), [], True
    while more:
        answer = browser.sync()
        more, heard = answer["more"], [*heard, *answer["records"]]
        assert len(answer["records"]) <= 8
    assert [r["tokens"][0] for r in heard] == [f"w{i}" for i in range(30)]


def test_room_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.limits, "MOST_ANNOTATORS", 1)
    monkeypatch.setattr(module.limits, "MOST_TYPES", 2)
    monkeypatch.setattr(module.limits, "MOST_LABEL_BYTES", 150)
    kept = Annotations(tmp_path)
    Browser(kept).sync(said(WORDS, 1), said(["b"], 1), types=(named("A", 1), named("B", 1)))
    Browser(kept, "Bo").sync()  # who only looks takes no room
    for browser, sent in (
        (Browser(kept, "Bo"), {"records": (said(WORDS, 1),)}),
        (Browser(kept), {"records": (said(["c"], 1),)}),
        (Browser(kept), {"types": (named("C", 1),)}),
    ):
        with pytest.raises(Refusal) as refused:
            browser.sync(*sent.get("records", ()), types=sent.get("types", ()))
        assert refused.value.status == 413
    Browser(kept).sync({"tokens": WORDS, "deleted": True, "changed": 2}, types=(named("B", 2, "known"),))


# -- over HTTP -----------------------------------------------------------------------------------------------


def send(client: Any, annotator: str, *records: dict[str, Any]) -> Any:
    return client.post("/labels", json={"annotator": annotator, "records": list(records)})


def test_agreement_of_two_annotators(client: Any) -> None:
    send(client, "Ada", said(WORDS, 1, (0, 1, "PER"), (2, 3, "LOC")), said(["a", "b"], 1), said(["only"], 1))
    send(client, "Bo", said(WORDS, 1, (0, 1, "PER")), said(["a", "b"], 1), said(["draft"], 1, accepted=False))
    names = client.get("/annotators").json()["annotators"]
    assert names == [{"name": "Ada", "accepted": 3}, {"name": "Bo", "accepted": 2}]
    found = client.get("/agreement", params={"one": "Ada", "other": "Bo"}).json()
    assert (found["sentences"], found["tokens"]) == (2, 5)
    assert [(row["type"], row["one"], row["other"], row["both"]) for row in found["rows"]] == [
        ("LOC", 1, 0, 0),
        ("PER", 1, 1, 1),
        ("all", 2, 1, 1),
    ]
    assert found["rows"][1] | {"f1": 1.0, "kappa": 1.0} == found["rows"][1]
    [differing] = found["differing"]
    assert differing["tokens"] == WORDS
    sheet = client.get("/agreement", params={"one": "Ada", "other": "Bo", "form": "csv"})
    assert sheet.headers["content-disposition"] == 'attachment; filename="agreement.csv"'
    assert sheet.text.splitlines() == [
        "type,span F1,kappa of tokens,entities of Ada,entities of Bo,the same",
        "LOC,0.0000,0.0000,1,0,0",
        "PER,1.0000,1.0000,1,1,1",
        "all,0.6667,0.5833,2,1,1",
    ]
    missing = client.get("/agreement", params={"one": "Ada", "other": "Eve"})
    assert missing.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"annotator": ""},
        {"annotator": " Ada"},
        {"annotator": "Ada\u001b[31m"},
        {"annotator": "x" * 41},
        {"annotator": "Ada", "records": [said(WORDS, 1, (0, 1, "A"), (0, 2, "B"))]},
        {"annotator": "Ada", "records": [said(WORDS, 1, (0, 4, "A"))]},
        {"annotator": "Ada", "records": [said(WORDS, -1)]},
        {"annotator": "Ada", "records": [said(WORDS, 2**60)]},
        {"annotator": "Ada", "records": [{**said(WORDS, 1), "gaps": [""]}]},
        {"annotator": "Ada", "records": [said(["w"], 1)] * 501},
        {"annotator": "Ada", "types": [{"name": "", "changed": 1}]},
        {"annotator": "Ada", "types": [{"name": "a\u001b", "changed": 1}]},
    ],
)
def test_what_cannot_be_a_label_is_refused(client: Any, body: dict[str, Any]) -> None:
    assert client.post("/labels", json=body).status_code == 422
    assert client.get("/annotators").json() == {"annotators": []}


def test_types_of_any_tagger_are_kept(client: Any) -> None:
    record = said(WORDS, 1, (0, 1, "Medical Condition"))
    body = {"annotator": "Ada", "records": [record], "types": [named("Medical Condition", 1)]}
    assert client.post("/labels", json=body).json()["records"] == [record]


def test_names_never_become_paths(client: Any) -> None:
    names = ("../../etc/passwd", "a/b", "Zoë Müller", "名前", "=cmd()")
    for name in names:
        assert send(client, name, said(WORDS, 1)).status_code == 200
    folder = client.service.store.folder / "labels"
    assert {p.name[:7] for p in folder.iterdir()} == {"about.j", "labels-"}
    assert [row["name"] for row in client.get("/annotators").json()["annotators"]] == list(names)
    sheet = client.get("/agreement", params={"one": "=cmd()", "other": "a/b", "form": "csv"}).text
    assert "entities of '=cmd()" in sheet


def test_other_pages_can_neither_read_nor_write_labels(client: Any) -> None:
    body = {"annotator": "Ada", "records": [said(WORDS, 1)]}
    assert client.post("/labels", json=body, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/labels", content=json.dumps(body), headers={"content-type": "text/plain"}).status_code == 415
