"""Files for the queue: every format that can be read, in a process that bounds what they can do."""

from __future__ import annotations

import base64
import errno
import gzip
import io
import json
import os
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
from nershift.data.formats import writable, write_sentences
from nershift.data.spans import Sentence
from nershift.server import read_upload, uploads
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal
from nershift.server.uploads import Uploads

LABELLED = [
    Sentence.of(["Ada", "flew", "to", "New", "Leeds", "."], [(0, 1, "person"), (3, 5, "place")]),
    Sentence.of(["Nothing", "else", "."]),
]


def parts(files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    return [(name, base64.b64encode(content).decode()) for name, content in files.items()]


def send(client: Any, files: Mapping[str, bytes], **more: Any) -> Any:
    sent = [{"name": name, "content": content} for name, content in parts(files)]
    return client.post("/files", json={"files": sent, **more})


def read(client: Any, files: Mapping[str, bytes], **more: Any) -> dict[str, Any]:
    made = send(client, files, **more)
    assert made.status_code == 201, made.text
    return dict(client.get(f"/files/{made.json()['id']}").json())


def refusal(answer: Any, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    return dict(answer.json()["error"])


def zipped(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            packed.write(path, path.relative_to(folder.parent))
    return out.getvalue()


@pytest.mark.parametrize("form", sorted({*writable(), "ace2005"} - {"raw"}))
def test_every_format_with_labels(client: Any, tmp_path: Path, form: str) -> None:
    if form == "ace2005":
        folder, text = tmp_path / "nw", "<DOC><BODY>Ada flew.</BODY></DOC>"
        folder.mkdir()
        (folder / "doc.sgm").write_text(text)
        at = text.replace("<DOC><BODY>", "").index("Ada")
        (folder / "doc.apf.xml").write_text(
            '<source_file URI="doc.sgm"><document><entity TYPE="PER" ID="e"><entity_mention ID="m" TYPE="NAM">'
            f'<extent><charseq START="{at}" END="{at + 2}">Ada</charseq></extent></entity_mention></entity>'
            "</document></source_file>"
        )
        found = read(client, {"ace.zip": zipped(tmp_path)})
        assert [row["label"] for sentence in found["sentences"] for row in sentence["entities"]] == ["PER"]
        return
    pytest.importorskip({"docbin": "spacy", "datasets": "datasets"}.get(form, "json"))
    suffix = {"conll": ".conll", "jsonl": ".jsonl", "docbin": ".spacy", "doccano": ".doccano.jsonl"}.get(form, "")
    suffix = ".argilla.jsonl" if form == "argilla" else suffix
    path = tmp_path / f"notes{suffix}"
    write_sentences(path, LABELLED, form)
    files = {path.name: path.read_bytes()} if path.is_file() else {"notes.zip": zipped(path)}
    found = read(client, files)
    assert (found["format"], found["labelled"]) == (form, True)
    assert [tuple(row["tokens"]) for row in found["sentences"]] == [s.tokens for s in LABELLED]
    spans = [[(e["start"], e["end"], e["label"]) for e in row["entities"]] for row in found["sentences"]]
    assert spans == [[(s.start, s.end, s.label) for s in sentence.spans] for sentence in LABELLED]


def test_files_that_belong_together(client: Any) -> None:
    pair = {"a.ann": b"T1\tperson 0 3\tAda\n", "a.txt": b"Ada left."}
    found = read(client, pair)
    assert (found["name"], found["format"]) == ("a.ann and 1 more", "brat")
    assert found["sentences"] == [
        {"tokens": ["Ada", "left", "."], "gaps": ["", " ", ""], "entities": [{"start": 0, "end": 3, "label": "person"}]}
        | {"entities": [{"start": 0, "end": 1, "label": "person"}]}
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", "Zoë met Bo. They left.\nNothing   else.".encode()),
        ("notes.raw", "Zoë met Bo .\nThey left .\nNothing else .".encode()),
        ("notes.conll", "Zoë O\nmet O\nBo O\n. O\n\nThey O\nleft O\n. O\n\nNothing O\nelse O\n. O\n".encode()),
        ("notes.txt.gz", gzip.compress("Zoë met Bo. They left. Nothing   else.".encode())),
    ],
)
def test_text_is_for_the_tagger(client: Any, name: str, content: bytes) -> None:
    found = read(client, {name: content})
    assert [row["tokens"] for row in found["sentences"]] == [
        ["Zoë", "met", "Bo", "."],
        ["They", "left", "."],
        ["Nothing", "else", "."],
    ]
    assert found["labelled"] is False  # without a single entity the file has no say in where there are some
    assert all("entities" not in row for row in found["sentences"])
    if name.startswith("notes.txt"):
        assert found["sentences"][2]["gaps"] == ["", "   ", ""]


def test_a_folder_of_splits(client: Any, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        write_sentences(tmp_path / "corpus" / f"{split}.conll", LABELLED, "conll")
    assert len(read(client, {"corpus.zip": zipped(tmp_path / "corpus")})["sentences"]) == 4


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.conll", b"Ada B-PER\nleft\n", "a.conll:2"),
        ("a.txt", b"caf\xe9 noir", "a.txt:1: byte 0xe9 is not UTF-8"),
        ("a.txt", b"", "a.txt:1: the file has no content"),
        ("a.xyz", b"\x00\x01\x02", "a.xyz: the format cannot be told"),
        ("a.zip", b"PK nothing", "the zip cannot be unpacked"),
        pytest.param("a.txt", b"word " * 2_100, "a sentence of 2,100 tokens", id="long"),
        pytest.param("a.txt", b"one.\n" * 5_001, "5,001 sentences, at most 5,000", id="many"),
        ("a.jsonl", b'{"text": "Ada", "spans": [[0, 3, "two words"]]}', "the type 'two words'"),
        ("a.jsonl", b'{"text": "\\ud800 x", "spans": []}', "a.jsonl"),
        ("a.jsonl", b'{"text": "Ada Bo", "spans": [[0, 6, "a"], [4, 6, "b"]]}', "overlaps"),
        pytest.param("a.jsonl", b"[" * 100_000, "", id="deep"),  # named: older pytest puts the id into the environment
        pytest.param("a.json", b"[" * 100_000 + b"]" * 100_000, "", id="deep and closed"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(client: Any, name: str, content: bytes, said: str) -> None:
    error = refusal(send(client, {name: content}), 422)
    assert said in error["message"]
    assert "/tmp" not in error["message"]
    assert client.get("/files").json()["files"] == []


def test_bombs_end_nothing_but_their_reading(tmp_path: Path) -> None:
    bounds = replace(Limits(), unpacked_mb=5)
    queue = Uploads(tmp_path, bounds)
    zeros = bytes(20_000_000)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("big.txt", zeros)
    for name, content in (("a.conll.gz", gzip.compress(zeros)), ("a.zip", out.getvalue())):
        with pytest.raises(Refusal, match="come out of this") as refused:
            queue.add(parts({name: content}), None)
        assert refused.value.status == 422


def test_a_reader_that_crashes_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Uploads(tmp_path, replace(Limits(), read_seconds=0.02))
    with pytest.raises(Refusal, match=r"within 0\.02 s"):
        queue.add(parts({"a.txt": b"text"}), None)
    queue = Uploads(tmp_path, replace(Limits(), read_bytes=1_000_000))
    with pytest.raises(Refusal, match="more memory"):
        queue.add(parts({"a.txt": b"text"}), None)
    assert queue.list() == []


@pytest.mark.parametrize("name", ["../../evil.txt", "C:\\evil.txt", "/etc/evil.txt"])
def test_names_lead_nowhere(client: Any, name: str) -> None:
    assert read(client, {name: b"Ada left."})["format"] == "text"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr(name, "Ada left.")
    assert len(read(client, {"a.zip": out.getvalue()})["sentences"]) == 1


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a\u001b[31m.txt", "x" * 300, "a/"])
def test_names_that_cannot_be_used(client: Any, name: str) -> None:
    assert send(client, {name: b"Ada left."}).status_code == 422


def test_content_that_is_no_base64_and_formats_there_are_not(client: Any) -> None:
    bad = client.post("/files", json={"files": [{"name": "a.txt", "content": "%%%"}]})
    assert refusal(bad, 422)["code"] == "content"
    assert refusal(send(client, {"a.txt": b"x"}, format="docx"), 422)["code"] == "format"
    assert read(client, {"a.unknown": b"Ada left."}, format="text")["sentences"]


def test_a_file_larger_than_a_body_may_be(client: Any) -> None:
    most = client.get("/files").json()["upload_bytes"]
    assert refusal(send(client, {"a.txt": b"x" * 2 * most}), 413)["code"] == "too_large"
    long = b"a. " * (most // 3)
    assert send(client, {"a.txt": long}).status_code == 422  # it arrives, and is too long for other reasons


def test_the_queue_survives_a_restart_and_counts_what_is_accepted(client: Any) -> None:
    for name in ("a.txt", "b.txt"):
        send(client, {name: f"Ada left {name[0]} .\nBo stayed.".encode()})
    said = {"tokens": ["Bo", "stayed", "."], "accepted": True, "changed": 1}
    client.post("/labels", json={"annotator": "Ada", "records": [said]})
    listed = client.get("/files", params={"annotator": "Ada"}).json()["files"]
    assert [(f["name"], f["sentences"], f["accepted"]) for f in listed] == [("a.txt", 2, 1), ("b.txt", 2, 1)]
    assert all(f["accepted"] == 0 for f in client.get("/files").json()["files"])
    folder = client.service.store.folder / "files"
    assert [f.name for f in Uploads(folder, Limits()).list()] == ["a.txt", "b.txt"]
    assert client.delete(f"/files/{listed[0]['id']}").status_code == 204
    assert [f.name for f in Uploads(folder, Limits()).list()] == ["b.txt"]
    assert client.delete(f"/files/{listed[0]['id']}").status_code == 404
    assert client.get("/files/f0000000g").status_code == 422


def test_a_full_disk_and_a_full_queue(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise uploads.StorageError("cannot be written (No space left on device)", place=str(path))

    with monkeypatch.context() as patched:
        patched.setattr(uploads, "write_text", full)
        assert "No space left" in refusal(send(client, {"a.txt": b"Ada left."}), 507)["message"]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(28))))
        assert refusal(send(client, {"a.txt": b"Ada left."}), 507)["code"] == "disk"
    monkeypatch.setattr(uploads.limits, "MOST_FILES", 0)
    assert refusal(send(client, {"a.txt": b"Ada left."}), 413)["code"] == "files"


def test_the_process_can_be_read_on_its_own(tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "a.txt").write_text("Ada left.")
    here = Path.cwd()
    try:
        assert read_upload.main(tmp_path / "sent", tmp_path / "out.json", None) == 0
    finally:
        os.chdir(here)
    assert json.loads((tmp_path / "out.json").read_text())["sentences"][0]["tokens"] == ["Ada", "left", "."]


def test_few_files_wait_to_be_read(client: Any) -> None:
    client.service.limits = replace(client.service.limits, reads=0)
    error = refusal(send(client, {"a.txt": b"Ada left."}), 429)
    assert error["code"] == "overloaded"


def test_a_server_that_stops_reads_no_further(tmp_path: Path) -> None:
    queue = Uploads(tmp_path, Limits())
    ended: list[Refusal] = []

    def add() -> None:
        try:
            queue.add(parts({"a.txt": b"Ada left. " * 20_000}), None)
        except Refusal as refused:
            ended.append(refused)

    reading = threading.Thread(target=add)
    reading.start()
    while queue._process is None and reading.is_alive():
        time.sleep(0.001)
    queue.stop()
    reading.join(5)
    assert [refused.code for refused in ended] == ["unreadable"]
    assert queue.list() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_while_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "a.txt").write_text("Ada left.")
    monkeypatch.chdir(tmp_path)
    assert read_upload.main(tmp_path / "sent", Path("/dev/full"), None) == read_upload.DISK_FULL
    program = tmp_path / "full"
    program.write_text(f"#!/bin/sh\nexit {read_upload.DISK_FULL}\n")
    program.chmod(0o700)
    monkeypatch.setattr("nershift.server.uploads.sys.executable", str(program))
    with pytest.raises(Refusal) as told:
        Uploads(tmp_path / "files", Limits()).add(parts({"a.txt": b"Ada left."}), None)
    assert (told.value.status, told.value.code) == (507, "disk")
    assert list((tmp_path / "files").iterdir()) == []
