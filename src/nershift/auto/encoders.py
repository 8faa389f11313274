"""Pretrained encoders by what they are for (`small`, `base`, `multilingual`); none is fetched unasked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nershift.data.languages import plain_language
from nershift.errors import ConfigError, MissingExtraError, nearest

VARIABLE = "NERSHIFT_ENCODERS"
_FULL, _HALF = 4, 2  # bytes of a stored weight
_LEAST = 0.1  # million weights: no encoder trains in no time
_FILES = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder that a recipe can start from.

    Attributes:
        name: as a user gave it, or the role it fills.
        place: a folder, or the name of a repository on the hub.
        millions: of weights in its layers, which say how long it trains. Its table of sub-words, most of the weights of
            a small multilingual one, takes no time.
        here: on this machine.
    """

    name: str
    place: str
    millions: float
    licence: str = ""
    why: str = ""
    megabytes: int = 0
    languages: str = "English"
    here: bool = True

    def describe(self) -> str:
        facts = [f"{self.millions:.0f} million weights in its layers", self.licence, self.languages]
        place = Path(self.place).name if self.here else self.place
        return f"{place} ({', '.join(f for f in facts if f)})"


# Chosen from what the field uses, and of these what our own runs measured (docs/fit.md).
ROLES: dict[str, Encoder] = {
    "small": Encoder(
        "small",
        "sentence-transformers/all-MiniLM-L6-v2",
        10.6,
        "Apache-2.0",
        "trains on a laptop's CPU in a minute or two, and gains most with few labels in our runs",
        91,
    ),
    "base": Encoder(
        "base",
        "sentence-transformers/all-mpnet-base-v2",
        84.9,
        "Apache-2.0",
        "the best English encoder of our runs; several times slower, so better with a GPU",
        438,
    ),
    "multilingual": Encoder(
        "multilingual",
        "FacebookAI/xlm-roberta-base",
        85.1,
        "MIT",
        "the usual start for a hundred languages; large, so better with a GPU",
        1120,
        "100 languages",
    ),
}
_SHORT = {"small": ("minilm",), "base": ("mpnet",), "multilingual": ("xlm-roberta",)}


def choose_encoder(asked: str, language: str = "", device: str = "cpu", download: bool = False) -> Encoder | None:
    """The encoder that ``--encoder`` means; None for the recurrent road.

    Args:
        asked: ``auto`` (one that is here, if any), ``none``, a role, a folder, or a name on the hub.
        language: of the target; only English has encoders of its own here.
        download: an encoder that is not here may be fetched.
    """
    if asked == "none":
        return None
    if asked == "auto":
        return next((e for role in _preferred(language, device) if (e := _found(role)) is not None), None)
    if asked in ROLES:
        found = _found(asked)
        return found if found is not None else _fetchable(ROLES[asked], download)
    folder = _folder(asked)
    if folder is not None:
        return _of_folder(asked, folder)
    if "/" not in asked or Path(asked).is_absolute() or asked.startswith((".", "~")):
        raise ConfigError(
            f"there is no encoder '{asked}'{nearest(asked, ('auto', 'none', *ROLES))}",
            place="--encoder",
            expected=f"auto | none | {' | '.join(ROLES)} | a folder with {_FILES[0]} | OWNER/NAME on the hub",
            fix=f"check the path, or set {VARIABLE} to the folder that holds the encoders",
        )
    cached = _cached(asked)
    if cached is not None:
        return _of_folder(asked, cached)
    return _fetchable(Encoder(asked, asked, 85.0), download)


def _preferred(language: str, device: str) -> tuple[str, ...]:
    if plain_language(language) not in ("", "english"):
        return ("multilingual",)
    return ("base", "small") if device.startswith("cuda") else ("small", "base")


def _found(role: str) -> Encoder | None:
    """The role's encoder, if it is on this machine."""
    known = ROLES[role]
    for name in (role, known.place.partition("/")[2], *_SHORT[role]):
        folder = _folder(name)
        if folder is not None:
            return _of_folder(role, folder)
    cached = _cached(known.place)
    return None if cached is None else _of_folder(role, cached)


def _of_folder(name: str, folder: Path) -> Encoder:
    known = ROLES.get(name)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    weights = size / _bytes_of_a_weight(folder) - _in_table(folder)
    return Encoder(
        name,
        str(folder),
        max(round(weights / 1e6, 1), _LEAST),
        known.licence if known else "",
        known.why if known else "",
        round(size / 1e6),
        known.languages if known else "",
    )


def _in_table(folder: Path) -> int:
    """Weights in the table of sub-words; 0: its settings do not say."""
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError:
        return 0
    sizes = [told.get(name) for name in ("embedding_size", "hidden_size", "dim", "d_model")]
    width = next((size for size in sizes if isinstance(size, int)), 0)
    rows = told.get("vocab_size")
    return width * rows if isinstance(rows, int) else 0


def _bytes_of_a_weight(folder: Path) -> int:
    """Two for weights that are stored in half precision."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = file.read(8 + (1 << 20))
        return _HALF if header.count(b'"F16"') + header.count(b'"BF16"') > header.count(b'"F32"') else _FULL
    return _FULL


def _fetchable(encoder: Encoder, download: bool) -> Encoder:
    """An encoder of the hub, which is only fetched if that was asked for."""
    size = f"{encoder.megabytes:,} MB" if encoder.megabytes else "its size is on its page"
    licence = f", licence {encoder.licence}" if encoder.licence else ""
    if not download:
        raise ConfigError(
            f"'{encoder.place}' is not on this machine ({size}{licence})",
            place="--encoder",
            expected=f"an encoder in the folder that {VARIABLE} names, or in the cache of the hub",
            fix="--download fetches it; --encoder none does without",
        )
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise MissingExtraError("transformers", "transformers", f"encoder '{encoder.place}'") from None
    return Encoder(**{**vars(encoder), "here": False})


def _folder(name: str) -> Path | None:
    """A folder of this name, here or among those of ``NERSHIFT_ENCODERS``, that holds an encoder."""
    return next((p for p in _places(name) if all((p / file).is_file() for file in _FILES)), None)


def _places(name: str) -> Iterator[Path]:
    yield Path(name).expanduser()
    kept = os.environ.get(VARIABLE, "")
    if kept:
        yield Path(kept, name)


def _cached(repository: str) -> Path | None:
    """Where the hub's cache has the newest copy of a repository; no network, no import of its library."""
    home = os.environ.get("HF_HUB_CACHE") or str(Path(os.environ.get("HF_HOME", "~/.cache/huggingface"), "hub"))
    folder = Path(home).expanduser() / f"models--{repository.replace('/', '--')}" / "snapshots"
    kept = sorted(folder.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True) if folder.is_dir() else []
    return next((path for path in kept if all((path / file).exists() for file in _FILES)), None)
