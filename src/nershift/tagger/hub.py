"""Taggers to and from a model hub, through huggingface_hub: only JSON, safetensors and tokenizer files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nershift.errors import CheckpointError, MissingExtraError, SetupError
from nershift.manifest import manifested
from nershift.storage import write_text
from nershift.tagger.card import model_card, read_metrics

if TYPE_CHECKING:
    from nershift.tagger.tagger import Tagger

FILES = ("*.json", "*.safetensors", "*.txt", "*.md")  # never a pickle, never code


def push(
    tagger: Tagger,
    repo_id: str,
    *,
    license: str,
    language: str = "",
    about: str = "",
    private: bool = True,
    token: str | None = None,
    message: str = "Upload tagger",
) -> str:
    """Upload a tagger with a model card; returns the address of the commit.

    Args:
        tagger: its run's scores, if it was loaded from a run folder, go into the card.
        repo_id: ``name/repository``; created if missing.
        license: of the weights, an identifier of the hub such as ``mit`` or ``cc-by-4.0``.
        language: code of the language, such as ``en``.
        about: your own text for the card.
        private: make a new repository private.
        token: instead of the one you are logged in with.
        message: of the commit.
    """
    if not license.strip():
        raise SetupError(
            "no licence was given",
            place="push_to_hub",
            expected="an identifier such as 'mit', 'cc-by-4.0' or 'other'",
            fix="push_to_hub(repo_id, license=…); the licence of the training data may decide it",
        )
    hub = _hub()
    with tempfile.TemporaryDirectory() as name:
        write_folder(tagger, Path(name), repo_id, license, language, about)
        try:
            api = hub.HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            done = api.upload_folder(
                repo_id=repo_id, folder_path=name, commit_message=message, allow_patterns=list(FILES)
            )
        except Exception as error:
            raise _explained(error, repo_id) from None
    return str(getattr(done, "commit_url", done))


def write_folder(tagger: Tagger, folder: Path, repo_id: str, license: str, language: str = "", about: str = "") -> None:
    """What :func:`push` uploads: the tagger, its scores and a card as ``README.md``."""
    with manifested(folder):
        tagger.save(folder)
        for path in [p for p in folder.rglob("*") if p.is_file() and not any(p.match(kind) for kind in FILES)]:
            path.unlink()  # what is not sent is none of the files that are looked for
    metrics = read_metrics(tagger.folder)
    if metrics is not None:
        metrics["data"] = {k: v for k, v in metrics.get("data", {}).items() if k != "start"}  # a local path
        write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
    meta = tagger.meta | {"overlapping": tagger.model.head(tagger.key).overlapping}
    card = model_card(repo_id, tagger.types, meta, metrics, license, language, about)
    write_text(folder / "README.md", card)


def fetch(name: str | Path, revision: str | None = None, token: str | None = None) -> Path:
    """A local folder: ``name`` itself, or the downloaded files of the repository with that name."""
    if Path(name).is_dir():
        return Path(name)
    hub = _hub()
    try:
        return Path(hub.snapshot_download(str(name), revision=revision, token=token, allow_patterns=list(FILES)))
    except Exception as error:
        raise _explained(error, str(name)) from None


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hub", "a tagger on a model hub") from None
    return huggingface_hub


def _explained(error: Exception, repo_id: str) -> CheckpointError:
    """Errors of the client, its HTTP library or the system as one kind of error."""
    first = next(iter(str(error).strip().splitlines()), "")
    return CheckpointError(
        f"the hub says: {type(error).__name__}{': ' * bool(first)}{first}",
        place=repo_id,
        expected="a local folder, or NAME/REPOSITORY on the hub",
        fix="check the name, your connection and that you are logged in: hf auth login",
    )
