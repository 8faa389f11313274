from __future__ import annotations

import builtins
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from nershift import Tagger
from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError, MissingExtraError, SetupError
from nershift.run import transfer
from nershift.tagger.card import model_card

hub = pytest.importorskip("huggingface_hub")
MakeCorpus = Callable[..., Corpus]
TEXT = "Okafor flew from Leeds to Porto ."


@pytest.fixture
def run(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> Path:
    transfer("target_only", make_corpus("news"), out=tmp_path / "run", config=tiny, quiet=True, report=False)
    (tmp_path / "run" / "weights.bin").write_bytes(b"a pickle, for all one knows")
    return tmp_path / "run"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the hub: what is uploaded lies there, a repository a folder."""
    root = tmp_path / "hub"

    def matching(folder: Path, patterns: list[str]) -> list[Path]:
        return sorted({p for pattern in patterns for p in folder.rglob(pattern) if p.is_file()})

    def create(self: Any, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        (root / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload(self: Any, *, repo_id: str, folder_path: str, commit_message: str, allow_patterns: list[str]) -> Any:
        for path in matching(Path(folder_path), allow_patterns):
            target = root / repo_id / path.relative_to(folder_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        return SimpleNamespace(commit_url=f"hub/{repo_id}/1")

    def download(repo_id: str, *, revision: Any, token: Any, allow_patterns: list[str]) -> str:
        if not (root / repo_id).is_dir():
            raise OSError(f"404 Client Error\nno repository {repo_id}")
        out = tmp_path / "cache" / repo_id
        for path in matching(root / repo_id, allow_patterns):
            target = out / path.relative_to(root / repo_id)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        return str(out)

    monkeypatch.setattr(hub.HfApi, "create_repo", create)
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    monkeypatch.setattr(hub, "snapshot_download", download)
    return root


def test_there_and_back(run: Path, server: Path) -> None:
    tagger = Tagger.from_pretrained(run)  # a folder is loaded as it is
    address = tagger.push_to_hub("me/news-ner", license="cc-by-4.0", language="en", about="For *tests*.")
    assert address == "hub/me/news-ner/1"
    lying = sorted(p.name for p in (server / "me/news-ner").iterdir())
    assert lying == ["README.md", "manifest.json", "metrics.json", "model.json", "model.safetensors"]
    (server / "me/news-ner" / "evil.bin").write_bytes(b"pickle")
    again = Tagger.from_pretrained("me/news-ner")
    assert again(TEXT) == tagger(TEXT)
    assert again.folder is not None
    assert not (again.folder / "evil.bin").exists()
    again.push_to_hub("me/second", license="mit")  # the scores travel with it
    assert "95% interval" in (server / "me/second/README.md").read_text()


def test_the_card_says_what_the_run_knows(run: Path, server: Path) -> None:
    Tagger.load(run).push_to_hub("me/news-ner", license="cc-by-4.0", language="en", about="For *tests*.")
    text = (server / "me/news-ner/README.md").read_text()
    _, header, body = text.split("---\n", 2)
    head = yaml.safe_load(header)
    metrics = json.loads((run / "metrics.json").read_text())
    assert head["license"] == "cc-by-4.0"
    assert head["language"] == "en"
    assert head["library_name"] == "nershift"
    assert head["pipeline_tag"] == "token-classification"
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["name"] == "news"
    values = {m["type"]: m["value"] for m in result["metrics"]}
    assert values["f1"] == pytest.approx(metrics["test"]["f1"], abs=1e-4)
    low, high = metrics["test"]["interval"]
    assert f"{100 * metrics['test']['f1']:.1f} | {100 * low:.1f} to {100 * high:.1f}" in body
    assert "For *tests*." in body
    assert "40 labelled sentences of `news`" in body
    assert "`target_only`" in body
    assert "`person`, `place`" in body
    for kind, got in metrics["test"]["by_type"].items():
        assert f"| {kind} | {got['support']} |" in body
    for part in ("## Data", "## Method", "## Scores", "## Limits", 'Tagger.from_pretrained("me/news-ner")'):
        assert part in body
    assert "start" not in json.loads((server / "me/news-ner/metrics.json").read_text())["data"]
    assert str(run.parent) not in text


def test_a_card_without_a_run() -> None:
    card = model_card("me/x", ["person"], {"method": "of-a-plugin"}, None, "mit")
    assert "was not scored" in card
    assert "no test score" in card
    assert "`of-a-plugin`" in card
    assert "model-index" not in card
    assert "Not recorded." in model_card("me/x", ["person"], {}, None, "mit")
    assert "Entities are flat" in card
    assert "Entities are flat" not in model_card("me/x", ["person"], {"overlapping": True}, None, "mit")


def test_messages(run: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="404 Client Error") as error:
        Tagger.from_pretrained("me/missing")
    assert "logged in" in error.value.fix
    with pytest.raises(SetupError, match="no licence"):
        Tagger.load(run).push_to_hub("me/x", license=" ")

    def refuse(*args: Any, **more: Any) -> None:
        raise PermissionError("403 Forbidden")

    monkeypatch.setattr(hub.HfApi, "create_repo", refuse)
    with pytest.raises(CheckpointError, match="403 Forbidden"):
        Tagger.load(run).push_to_hub("me/x", license="mit")
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "huggingface_hub":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"nershift\[hub\]"):
        Tagger.from_pretrained("me/x")
