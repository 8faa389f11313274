from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nershift.data.spans import Sentence
from nershift.errors import CheckpointError
from nershift.server.refusals import Refusal
from nershift.server.version_folder import Version
from nershift.server.versions import Store
from nershift.tagger.tagger import Tagger

LABELS = [Sentence.of(["Ada", "slept"], [(0, 1, "person")]), Sentence.of(["Nobody"])]


def add_copy(store: Store, model: Path, **told: object) -> str:
    name = store.next_name()
    folder = store.new_folder(name)
    for path in model.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    store.add(Version(name, ("person",), "target_only", parent=store.current, **told), LABELS)
    return name


def test_the_first_version_is_a_copy(small_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "s", small_model)
    text = "Okafor flew from Leeds to Porto ."
    tagger = store.tagger("v1")
    assert tagger is not None
    assert tagger(text) == Tagger.load(small_model)(text)
    assert store.describe()["versions"][0]["labels"] == ["person", "place"]
    assert not list((tmp_path / "s" / "v1").glob("*.jsonl"))  # no logs, no predictions of the run
    store.close()


def test_a_restart_finds_everything(small_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, small_model)
    name = add_copy(store, small_model, note="first try", sentences=2)
    store.choose(name)
    store.add_score(name, {"mean": 0.5, "sd": 0.1, "folds": 5})
    before = store.describe()
    store.close()
    (tmp_path / ".v3.tmp").mkdir()  # what a crash leaves
    again = Store(tmp_path, small_model)
    assert again.describe() == before
    assert again.current == name == "v2"
    assert [(s.tokens, s.spans) for s in again.labels("v2")] == [(s.tokens, s.spans) for s in LABELS]
    assert again.labels("v1") == []
    assert not (tmp_path / ".v3.tmp").exists()
    assert again.next_name() == "v3"
    again.close()


def test_a_broken_tagger_never_becomes_a_version(small_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, small_model)
    folder = store.new_folder("v2")
    (folder / "model.json").write_text("{}")
    with pytest.raises(CheckpointError):
        store.add(Version("v2", (), ""), ())
    assert not (tmp_path / "v2").exists()
    assert store.current == "v1"
    store.close()


@pytest.mark.parametrize("content", ["", "[]", '{"name": "v9"}', '{"name": "../v1"}', "{"])
def test_a_lost_current_falls_back_to_the_first(small_model: Path, tmp_path: Path, content: str) -> None:
    Store(tmp_path, small_model).close()
    (tmp_path / "current.json").write_text(content)
    store = Store(tmp_path, small_model)
    assert store.current == "v1"
    store.close()


def test_names_are_looked_up_not_joined(small_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, small_model)
    for name in ("v2", "../store/v1", "v1/", "", ".lock"):
        with pytest.raises(Refusal) as caught:
            store.path(name)
        assert caught.value.status == 404
    store.close()


def test_another_model_is_refused(small_model: Path, pretrained_model: Path, tmp_path: Path) -> None:
    Store(tmp_path, small_model).close()
    with pytest.raises(CheckpointError, match="another model"):
        Store(tmp_path, pretrained_model)


def test_two_servers_on_one_folder(small_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    store = Store(tmp_path, small_model)
    with pytest.raises(CheckpointError, match="another server"):
        Store(tmp_path, small_model)
    store.close()


def test_a_damaged_description_is_told(small_model: Path, tmp_path: Path) -> None:
    Store(tmp_path, small_model).close()
    path = tmp_path / "v1" / "version.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | {"name": "v7"}))
    with pytest.raises(CheckpointError, match="v7"):
        Store(tmp_path, small_model)
    path.write_text("no")
    with pytest.raises(CheckpointError, match="description of a version"):
        Store(tmp_path, small_model)


def test_no_model_no_store(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no model\.json"):
        Store(tmp_path / "s", tmp_path)
    assert not (tmp_path / "s").exists()


def test_few_taggers_stay_in_memory(small_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, small_model, most_loaded=2)
    for _ in range(3):
        store.tagger(add_copy(store, small_model))
    store.tagger("v1")
    store.tagger("v4")
    store.tagger("v2")
    assert list(store._taggers) == ["v1", "v2"]  # the one that serves stays
    store.close()


def test_a_pretrained_model_has_no_tagger_yet(pretrained_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, pretrained_model)
    assert store.tagger("v1") is None
    assert store.find().labels == ()
    store.close()


def test_a_damaged_version_does_not_serve_unless_asked(small_model: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, small_model)
    name = add_copy(store, small_model)
    weights = tmp_path / name / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    store._taggers.clear()
    with pytest.raises(CheckpointError, match="not as it was written"):
        store.choose(name)
    assert store.current == "v1"
    store.close()
    store = Store(tmp_path, small_model, verify=False)
    store.choose(name)
    assert store.current == name
    store.close()
