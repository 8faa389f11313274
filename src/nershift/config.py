"""Frozen settings: plain dataclasses, YAML in and out, unknown keys refused with the nearest known one."""

from __future__ import annotations

import dataclasses
import logging
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from nershift.data.schemes import Scheme
from nershift.errors import ConfigError, nearest

T = TypeVar("T")
log = logging.getLogger(__name__)


def setting(default: Any, help: str = "", *, was: str = "") -> Any:
    """A dataclass field that explains itself.

    Args:
        help: one line for people: what it does and, for a number, in which unit.
        was: the name it had in earlier versions, which is still accepted.
    """
    metadata = {"help": help, "was": was}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class WordsConfig:
    """Word vectors of the recurrent encoder."""

    vectors: str = ""  # a GloVe / word2vec / fastText text file; empty: random vectors
    subwords: str = ""  # or an encoder folder: a word is the mean of its sub-words' rows, cut to `size` axes
    size: int = 100  # dimension of random vectors (a file brings its own)
    lower: bool = True  # one row for all casings of a word (the character CNN still sees the case)
    train: bool = True  # fine-tune the rows of the words seen in training
    reserve: int = 100_000  # further words of the file kept, frozen, for text not seen in training
    drop: float = 0.0  # share of training words replaced by the unknown word


@dataclass(frozen=True)
class CharsConfig:
    """Character CNN: one convolution a width, max over the word."""

    use: bool = True
    size: int = 30  # of a character's vector
    widths: tuple[int, ...] = (2, 3, 4, 5)
    filters: int = 100  # in total, shared out over the widths
    max_length: int = 30  # longer words keep their first and last halves


@dataclass(frozen=True)
class RecurrentConfig:
    cell: Literal["gru", "lstm"] = "gru"
    size: int = 128  # a direction
    layers: int = 1


@dataclass(frozen=True)
class TransformerConfig:
    name: str = ""  # a local folder or a hub name
    max_pieces: int = 256  # sub-words a window, special ones included
    overlap: int = 64  # sub-words shared by neighbouring windows
    freeze_layers: int = 0  # bottom layers that do not learn
    freeze_embeddings: bool = False


@dataclass(frozen=True)
class EncoderConfig:
    kind: str = "recurrent"
    words: WordsConfig = field(default_factory=WordsConfig)
    chars: CharsConfig = field(default_factory=CharsConfig)
    recurrent: RecurrentConfig = field(default_factory=RecurrentConfig)
    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    input_dropout: float = 0.0  # on the concatenated word and character features
    dropout: float = 0.5  # after the character CNN and on the states


@dataclass(frozen=True)
class HeadConfig:
    kind: str = "crf"
    scheme: Scheme = "BIOES"
    # With other types than the sources': all rows new, or carried over for types that mean the same.
    start: Literal["new", "carried"] = "new"
    same: dict[str, str] = field(default_factory=dict)  # target type: source type, where names do not tell


@dataclass(frozen=True)
class TrainConfig:
    """One stage of training."""

    optimizer: Literal["adam", "adamw", "sgd", "rmsprop", "bertadam"] = "adam"
    lr: float = 1e-3
    encoder_lr: float | None = None  # for the encoder, where it differs
    words_lr: float | None = None  # for the word vectors, where it differs
    weight_decay: float = 1e-6
    momentum: float = 0.0  # sgd
    schedule: Literal["constant", "linear", "inverse"] = "constant"
    decay: float = 0.05  # ρ of inverse: lr / (1 + ρ · epoch)
    warmup: float = 0.0  # share of all steps over which the rate rises from zero
    clip: float = 5.0  # global gradient norm; 0: off
    batch_size: int = 32
    accumulate: int = 1  # batches a step
    longest: int = 256  # tokens; longer sentences are trained on in parts; 0: never in parts
    balance: float = 0.0  # corpora taking turns: batches an epoch, at least this share of the largest's
    epochs: int = 30
    max_steps: int = 0  # stop after so many steps; 0: epochs decide
    patience: int = 0  # epochs without a better dev score before stopping; 0: never
    swap: float = 0.0  # share of entities shown as another entity of their type, drawn anew every time
    perturb: float = 0.0  # a second loss with word vectors moved so far towards a higher one; 0: off
    average: int = 1  # trainings from the same start whose weights are averaged (by dev: of those that help)
    precision: Literal["fp32", "bf16"] = "fp32"
    eval_batch_size: int = 128
    record: bool = True  # on a GPU, replay steps of a shape met before
    checkpoint_steps: int = 0  # also write a checkpoint every so many steps
    checkpoint_seconds: float = 60.0  # and at least this often


@dataclass(frozen=True)
class Config:
    """A run is its config: everything that decides the result, data and code apart."""

    method: str = "target_only"
    preset: str = "paper"
    seed: int = 1
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    tensorboard: bool = False
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    head: HeadConfig = setting(HeadConfig, was="decoder")
    train: TrainConfig = field(default_factory=TrainConfig)
    pretrain: TrainConfig = field(default_factory=TrainConfig)
    options: dict[str, Any] = field(default_factory=dict)  # of the method, see `nershift methods NAME`


# What numbers of the blocks above may be, by the setting's name; all others are at least 0.
_AT_LEAST_ONE = {
    "size",
    "filters",
    "max_length",
    "layers",
    "batch_size",
    "eval_batch_size",
    "accumulate",
    "average",
    "widths",
}
_AT_MOST_ONE = {"balance", "drop", "dropout", "input_dropout", "swap", "warmup"}


def to_dict(config: Any) -> dict[str, Any]:
    """A config as plain YAML-able values."""
    return _plain(dataclasses.asdict(config))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def to_yaml(config: Any) -> str:
    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)


def build(cls: type[T], values: Mapping[str, Any], place: str = "config") -> T:
    """Make a config dataclass from nested plain values; every mistake is a :class:`ConfigError`."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"found {values!r}", place=place, expected="a block of settings (key: value)")
    hints = get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    made = {}
    for key, value in current_names(cls, values, place).items():
        here = f"{place}.{key}"
        if key not in known:
            raise ConfigError(
                f"unknown setting '{key}'{nearest(str(key), known)}",
                place=place,
                expected=", ".join(sorted(known)),
            )
        made[key] = _convert(hints[key], value, here)
        if cls.__module__ == __name__:
            _check_range(key, made[key], here)
    return cls(**made)


def current_names(cls: type, values: Mapping[str, Any], place: str = "config") -> dict[str, Any]:
    """The same settings under today's names; a name of an earlier version is accepted with a note."""
    fields = dataclasses.fields(cls)
    renamed = {f.metadata["was"]: f.name for f in fields if f.metadata.get("was")}
    hints, made = get_type_hints(cls), dict[str, Any]()
    for key, value in values.items():
        if key in renamed:
            log.warning("%s.%s is now called %s", place, key, renamed[key])
            key = renamed[key]
        if isinstance(value, Mapping) and dataclasses.is_dataclass(hints.get(key)):
            value = current_names(hints[key], value, f"{place}.{key}")
        made[key] = value
    return made


def _check_range(key: str, value: Any, place: str) -> None:
    values = value if isinstance(value, tuple) else (value,)
    low, high = int(key in _AT_LEAST_ONE), 1 if key in _AT_MOST_ONE else float("inf")
    good = [low <= v <= high for v in values if isinstance(v, (int, float))]
    if not values or not all(good):
        expected = f"{low} or more" if high > 1 else "a share from 0 to 1"
        raise ConfigError(f"found {value!r}", place=place, expected=expected)


def _convert(hint: Any, value: Any, place: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(hint, value, place)  # type: ignore[arg-type]
    if origin is Literal:
        if value not in args:
            raise ConfigError(
                f"found {value!r}{nearest(str(value), map(str, args))}",
                place=place,
                expected=" | ".join(map(str, args)),
            )
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        inner = [a for a in args if a is not type(None)]
        return _convert(inner[0], value, place)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"found {value!r}", place=place, expected="a list, e.g. [2, 3]")
        return tuple(_convert(args[0], v, place) for v in value)
    if origin is dict or hint is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"found {value!r}", place=place, expected="a block of settings (key: value)")
        return dict(value)
    if hint is float and isinstance(value, str):
        with suppress(ValueError):  # YAML reads 1e-3 as text
            value = float(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(
            f"found {value!r} ({type(value).__name__})",
            place=place,
            expected=f"a value of type {hint.__name__}",
        )
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested update: ``over`` wins, blocks are merged key by key."""
    out = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """``['train.lr=1e-3', 'encoder.chars.use=false']`` → nested values, each read as YAML."""
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"found '{pair}'", place="--set", expected="key=value, e.g. --set train.epochs=20")
        try:
            value: Any = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"cannot read the value of '{pair}'", place="--set", expected="a YAML value") from None
        for part in reversed(key.split(".")):
            value = {part: value}
        out = merge(out, value)
    return out


def read_yaml(path: str | Path) -> dict[str, Any]:
    """A YAML file as a nested dict, with the line of a syntax error in the message."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError("no such file", place=str(path), fix="check the path given to --config") from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", place=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", place=str(path), fix="save the file as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"not YAML: {getattr(error, 'problem', error)}", place=f"{path}{line}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"found a {type(values).__name__}", place=str(path), expected="a block of settings (key: value)"
        )
    return values
