from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from labelled_json import as_json

from nershift.data.corpus import Corpus
from nershift.data.formats import read_sentences
from nershift.data.spans import Sentence
from nershift.tagger.tagger import Tagger

pytest.importorskip("fastapi")
TEXT = "Okafor flew from Leeds to Porto ."


def error(answer: Any, status: int, code: str) -> str:
    """The message, after checking that the refusal has its whole body."""
    assert answer.status_code == status, answer.text
    body = answer.json()["error"]
    assert set(body) - {"field"} == {"code", "message", "fix"}
    assert body["fix"] or status == 404
    assert body["code"] == code
    assert body["message"]
    return str(body["message"])


def test_tagging_texts(client: Any, small_model: Path) -> None:
    made = client.post("/tag", json={"texts": [TEXT, "", "In Graz , Ada met Ruiz ."]}).json()
    assert made["model"] == "v1"
    assert len(made["results"]) == 3
    expected = Tagger.load(small_model)(TEXT)
    found = made["results"][0]["entities"]
    assert [(e["start"], e["end"], e["label"]) for e in found] == [(e.start, e.end, e.label) for e in expected]
    assert [e["score"] for e in found] == pytest.approx([e.score for e in expected], abs=1e-3)
    assert made["results"][1] == {"tokens": [], "sentences": [], "entities": [], "uncertainty": []}


def test_tagging_tokens_and_threshold(client: Any) -> None:
    made = client.post("/tag", json={"tokens": [TEXT.split(), []], "min_confidence": 1.0}).json()
    assert made["results"][0]["tokens"][0] == {"text": "Okafor", "start": 0, "end": 6}
    assert all(e["score"] >= 1 for e in made["results"][0]["entities"])
    assert made["results"][1]["sentences"] == [[0, 0]]


def test_answers_fit_their_schema(client: Any) -> None:
    from nershift.server.schemas import TagAnswer

    for body in ({"texts": [TEXT]}, {"tokens": [TEXT.split()]}):
        assert len(TagAnswer.model_validate(client.post("/tag", json=body).json()).results) == 1


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "texts"),
        ([], "body"),
        (None, "body"),
        ({"texts": "one"}, "texts"),
        ({"texts": [1]}, "texts.0"),
        ({"texts": [], "tokens": []}, "Extra inputs"),
        ({"tokens": [[""]]}, "tokens.0.0"),
        ({"texts": ["a"], "model": "../v1"}, "model"),
        ({"texts": ["a"], "min_confidence": 2}, "min_confidence"),
        ({"texts": ["a"] * 300}, "at most 256"),
        ({"texts": ["a"], "other": 1}, "other"),
    ],
)
def test_bad_requests_are_told(client: Any, body: Any, place: str) -> None:
    answer = client.post("/tag", content=json.dumps(body), headers={"content-type": "application/json"})
    assert place in error(answer, 422, "invalid")


@pytest.mark.parametrize(
    ("path", "body", "field", "fix"),
    [
        ("/tag", {}, "texts", "add the field texts"),
        ("/tag", {"texts": ["a"], "other": 1}, "other", "remove"),
        ("/tag", {"texts": "one"}, "texts", "give a list for"),
        ("/tag", {"texts": ["a", 1]}, "texts.1", "give a text for texts.1"),
        ("/tag", {"texts": ["a"] * 300}, "texts", "send at most 256"),
        ("/tag", {"texts": ["a" * 100_001]}, "texts.0", "shorten texts.0 to 100000 characters"),
        ("/tag", {"tokens": [["a", ""]]}, "tokens.0.1", "1 character or more"),
        ("/tag", {"texts": ["a"], "min_confidence": 2}, "min_confidence", "a value of 1"),
        ("/tag", {"texts": ["a"], "min_confidence": "high"}, "min_confidence", "give a number for"),
        ("/tag", {"texts": ["a"], "model": "../v1"}, "model", "as the server gave it"),
        ("/models/current", {}, "name", "add the field name"),
        ("/export", {"sentences": [{"tokens": ["a"]}]}, "format", "add the field format"),
        ("/adapt", {"sentences": 3}, "sentences", "give a list for"),
        (
            "/adapt",
            {"sentences": [{"text": "a", "entities": [{"start": 0, "end": 1}]}]},
            "sentences.0.entities.0.label",
            "add",
        ),
        ("/adapt", {"sentences": [{"tokens": [""]}]}, "sentences.0.tokens.0", "1 character or more"),
        ("/adapt", {"sentences": [{"tokens": ["a"]}], "cross_validate": "perhaps"}, "cross_validate", "true or false"),
    ],
)
def test_what_does_not_fit_is_named_with_what_to_do(client: Any, path: str, body: Any, field: str, fix: str) -> None:
    told = client.post(path, json=body)
    error(told, 422, "invalid")
    said = told.json()["error"]
    assert said.get("field", "") == field
    assert fix in said["fix"]
    assert "/docs" not in said["fix"] or "remove" in said["fix"]


def test_every_kind_of_mistake_in_a_schema_has_advice(client: Any) -> None:
    """Whatever can be wrong with a field of any route: nobody is sent away with 'see /docs'."""
    schemas = client.app.openapi()["components"]["schemas"]
    odd = (None, True, 10**9, -1, 1.5, "", "x" * 200_001, [], [None], {}, [[]] * 300, "\ud800")
    for path, methods in client.app.openapi()["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        shape = content["schema"]
        shapes = shape.get("anyOf") or shape.get("oneOf") or [shape]
        fields = {name for shape in shapes for name in schemas[shape["$ref"].rpartition("/")[2]]["properties"]}
        for field in fields:
            for value in odd:
                told = client.post(
                    path, content=json.dumps({field: value}), headers={"content-type": "application/json"}
                )
                if told.status_code == 422 and told.json()["error"]["code"] == "invalid":
                    assert not told.json()["error"]["fix"].startswith("see /docs"), (path, field, value, told.text)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b'{"texts": ["\\ud800"]}', "texts.0"),
        (b'{"min_confidence": NaN, "texts": []}', "min_confidence"),
    ],
)
def test_bad_bytes_are_told(client: Any, raw: bytes, place: str) -> None:
    answer = client.post("/tag", content=raw, headers={"content-type": "application/json"})
    assert place in error(answer, 422, "invalid")


@pytest.mark.parametrize("path", ["/nothing", "/models/..%2fv1/folder", "/static/..%2fapp.py", "/static/nothing.js"])
def test_unknown_paths(client: Any, path: str) -> None:
    assert error(client.get(path), 404, "http_404") == "Not Found"


def test_unknown_versions_jobs_and_verbs(client: Any) -> None:
    assert "version" in error(client.post("/tag", json={"texts": [], "model": "v9"}), 404, "unknown")
    assert "version" in error(client.get("/models/v9/folder"), 404, "unknown")
    assert "job" in error(client.get("/jobs/j00000000"), 404, "unknown")
    assert "Method" in error(client.get("/tag"), 405, "http_405")


def test_too_much(client: Any) -> None:
    assert "tokens" in error(client.post("/tag", json={"texts": ["a " * 50_000] * 3}), 413, "too_long")
    assert "tokens" in error(client.post("/suggest", json={"texts": ["." * 60_000]}), 413, "too_long")
    assert "tokens" in error(client.post("/tag", json={"tokens": [["a"] * 2_000] * 26}), 413, "too_long")
    big = json.dumps({"texts": ["x" * 2_100_000]}).encode()
    headers = {"content-type": "application/json"}
    assert "bytes" in error(client.post("/tag", content=big, headers=headers), 413, "too_large")

    def pieces() -> Any:  # no length is announced
        for _ in range(300):
            yield b"x" * 10_000

    error(client.post("/tag", content=pieces(), headers=headers), 413, "too_large")


def test_long_text_without_much_in_it_is_no_reason_to_refuse(client: Any) -> None:
    answer = client.post("/tag", json={"texts": ["x" * 100_000, " " * 100_000, "1.2" * 33_000, TEXT]})
    assert [len(row["tokens"]) for row in answer.json()["results"]] == [1, 0, 1, len(TEXT.split())]


def test_large_requests_are_read_as_small_ones_are(client: Any) -> None:
    """Bodies beyond some size are read in a thread of their own; answers and refusals are the same."""
    space = " " * 30_000
    headers = {"content-type": "application/json"}
    bodies = [
        '{"texts": [}',
        "[]",
        "null",
        '{"texts": [1]}',
        '{"texts": "a"}',
        '{"tokens": [[""]]}',
        '{"other": 1}',
        "[" * 15_000,  # deeper than any Python follows, shorter than what counts as large
    ]
    bodies += [
        '{"texts": ["Ada met Ruiz ."]}',
        '{"tokens": [["Ada"]], "min_confidence": 0.5}',
        '{"texts": [], "model": "v9"}',
    ]
    for body in bodies:
        small, large = (client.post("/tag", content=body + more, headers=headers) for more in ("", space))
        assert large.status_code == small.status_code
        assert large.content == small.content, body


def test_a_thousand_errors_are_told_as_one(client: Any) -> None:
    """Listing them all takes longer than reading the body."""
    from pydantic import TypeAdapter, ValidationError

    from nershift.server import schemas

    entity = {"token_start": "x", "token_end": 1, "label": "x"}
    sentences = [{"tokens": ["a"], "entities": [entity] * 100}] * 100
    for request, body in (
        (schemas.TagRequest, {"texts": [1] * 200}),
        (schemas.TagRequest, {"tokens": [[""] * 1_000] * 50}),
        (schemas.TagRequest, {f"f{i}": 1 for i in range(1_000)}),
        (schemas.AdaptRequest, {"sentences": sentences}),
        (schemas.ExportRequest, {"sentences": sentences, "format": "conll"}),
    ):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(request).validate_python(body)
        assert caught.value.error_count() <= 4


def test_health_models_metrics_and_docs(client: Any) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": "v1", "queue": 0}
    models = client.get("/models").json()
    assert models["current"] == "v1"
    (only,) = models["versions"]
    assert only["labels"] == ["person", "place"]
    assert (only["method"], only["parent"], only["f1"]) == ("target_only", None, None)
    client.post("/tag", json={"texts": [TEXT]})
    client.get("/no/such/path")
    text = client.get("/metrics").text
    assert 'nershift_requests_total{route="/tag",status="200"} 1.0' in text
    assert 'nershift_requests_total{route="other",status="404"} 1.0' in text
    assert "nershift_batch_requests_count 1.0" in text
    page = client.get("/docs").text
    assert "POST /adapt" in page
    assert "http" not in page.replace("http://127.0.0.1", "")  # nothing from elsewhere
    assert "/tag" in client.get("/openapi.json").json()["paths"]


def test_page_and_its_files(client: Any) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert client.get("/static/app.js").headers["content-type"].startswith("text/javascript")


def test_suggestions_come_by_uncertainty(client: Any) -> None:
    texts = ["Ada flew from Leeds to Porto .\nXq zzk Vv Ww ququ", "Nobody in Lima spoke in 1998 ."]
    made = client.post("/suggest", json={"texts": texts}).json()
    told = client.post("/tag", json={"texts": texts}).json()["results"]
    assert made["scores"] == [u for row in told for u in row["uncertainty"]]
    assert made["order"] == sorted(range(3), key=lambda i: -made["scores"][i])
    assert made["order"][0] == 1


@pytest.mark.parametrize("format", ["conll", "jsonl", "docbin", "brat", "doccano", "argilla"])
def test_exports_can_be_read_back(client: Any, format: str, make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    sentences = make_corpus("clinic", train=5).train
    assert format in client.get("/formats").json()["formats"]
    made = client.post("/export", json={"sentences": as_json(sentences), "format": format})
    assert made.status_code == 200
    name = made.headers["content-disposition"].partition('"')[2].rstrip('"')
    path = tmp_path / name
    path.write_bytes(made.content)
    if path.suffix == ".zip":
        zipfile.ZipFile(path).extractall(tmp_path / "out")
        path = tmp_path / "out"
    read = read_sentences(path, format)
    assert [(s.tokens, s.spans) for s in read] == [(s.tokens, s.spans) for s in sentences]


def test_what_cannot_be_exported(client: Any) -> None:
    good = as_json([Sentence.of(["a"])])
    answer = client.post("/export", json={"sentences": good, "format": "text"})
    assert "cannot be written" in error(answer, 422, "format")
    odd = [{"tokens": ["a\tb"], "entities": []}]
    answer = client.post("/export", json={"sentences": odd, "format": "conll"})
    assert "cannot stand in a column" in error(answer, 422, "unusable")


def test_the_folder_of_a_version(client: Any, tmp_path: Path) -> None:
    made = client.get("/models/v1/folder")
    zipfile.ZipFile(io.BytesIO(made.content)).extractall(tmp_path)
    assert [e.text for e in Tagger.load(tmp_path / "v1")(TEXT)]


def test_corrected_sentences_leave_the_server_only_when_asked(client: Any, tmp_path: Path) -> None:
    store, labels = client.service.store, [Sentence.of(["Ada", "slept"], [(0, 1, "person")])]
    folder = store.new_folder("v2")
    Tagger.load(store.path("v1")).save(folder)
    (folder / "encoder").mkdir()  # as a transformer has it
    (folder / "encoder" / "config.json").write_text("{}")
    store.add(replace(store.find("v1"), name="v2"), labels)

    def names(query: str) -> set[str]:
        made = client.get(f"/models/v2/folder{query}")
        return {
            Path(name).relative_to("v2").as_posix() for name in zipfile.ZipFile(io.BytesIO(made.content)).namelist()
        }

    kept = {"model.json", "model.safetensors", "manifest.json", "version.json", "encoder/config.json"}
    assert names("") == names("?labels=false") == kept
    assert names("?labels=true") == {*kept, "labels.jsonl"}


def test_a_full_disk_is_told_and_leaves_no_part_of_a_download(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    write = zipfile.ZipFile.write

    def full(packed: zipfile.ZipFile, path: Path, name: str) -> None:
        if name.endswith(".safetensors") or ".txt" in name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(packed, path, name)

    monkeypatch.setattr(zipfile.ZipFile, "write", full)
    assert "No space left on device" in error(client.get("/models/v1/folder"), 507, "disk")
    labelled = {"sentences": as_json([Sentence.of(["a"])]), "format": "brat"}
    assert "No space left on device" in error(client.post("/export", json=labelled), 507, "disk")
    assert list(scratch.iterdir()) == []
    monkeypatch.setattr("nershift.storage.os.replace", lambda *_: full(None, None, ".txt"))  # type: ignore[arg-type]
    assert "No space left on device" in error(client.post("/models/current", json={"name": "v1"}), 507, "disk")
    assert "No space left on device" in error(client.post("/export", json=labelled), 507, "disk")


@pytest.mark.parametrize(
    ("entities", "why"),
    [([(0, 2, "x"), (1, 2, "y")], "overlaps"), ([(1, 3, "x")], "outside"), ([(1, 1, "x")], "outside")],
)
def test_overlapping_or_outlying_entities(client: Any, entities: list[tuple[int, int, str]], why: str) -> None:
    for start, end in (("token_start", "token_end"), ("start", "end")):
        marked = [{start: a, end: b, "label": c} for a, b, c in entities]
        answer = client.post("/adapt", json={"sentences": [{"tokens": ["a", "b"], "entities": marked}]})
        assert why in error(answer, 422, "unusable")


@pytest.mark.parametrize("label", ["O", "two words", "", "x" * 61])
def test_labels_that_cannot_be(client: Any, label: str) -> None:
    given = {"tokens": ["a"], "entities": [{"token_start": 0, "token_end": 1, "label": label}]}
    assert "entities.0.label" in error(client.post("/adapt", json={"sentences": [given]}), 422, "invalid")


def test_nothing_to_learn_from(client: Any) -> None:
    answer = client.post("/adapt", json={"sentences": as_json([Sentence.of(["a"])])})
    assert "no sentence has an entity" in error(answer, 422, "no_entities")


def test_a_pretrained_model_serves_and_waits_for_labels(pretrained_model: Path, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.service import Service

    app = make_app(Service(pretrained_model, tmp_path))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        made = client.post("/tag", json={"texts": [TEXT]}).json()["results"][0]
        assert made["entities"] == []
        assert made["uncertainty"] == [1.0]


def test_overload_and_timeout_over_http(small_model: Path, tmp_path: Path) -> None:
    import threading

    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.limits import Limits
    from nershift.server.service import Service

    service = Service(small_model, tmp_path, replace(Limits(), queue=1, seconds=1.0))
    held, reached = threading.Event(), threading.Event()
    tag = service.batcher._tag

    def slow(*given: Any) -> Any:
        reached.set()
        held.wait(10)
        return tag(*given)

    service.batcher._tag = slow  # type: ignore[method-assign]
    answers: list[Any] = []
    with TestClient(make_app(service), base_url="http://127.0.0.1") as client:

        def ask() -> None:
            answers.append(client.post("/tag", json={"texts": [TEXT]}))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        threads[0].start()
        assert reached.wait(5)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        held.set()
        assert sorted(a.status_code for a in answers) == [429] * 4 + [503] * 2
        for answer in answers:
            assert answer.headers["retry-after"] == "1"
            error(answer, answer.status_code, "overloaded" if answer.status_code == 429 else "timeout")
        assert client.post("/tag", json={"texts": [TEXT]}).status_code == 200
