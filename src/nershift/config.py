"""Settings: frozen dataclasses whose fields explain themselves, read from YAML; every mistake names its place."""

from __future__ import annotations

import dataclasses
import logging
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nershift.data.labels import Scheme
from nershift.errors import ConfigError, closest, nearest
from nershift.parsing import parse_yaml

T = TypeVar("T")
log = logging.getLogger(__name__)
_hints: dict[type, dict[str, Any]] = {}
_noted: set[str] = set()  # old names that the user has been told about
MOST_UPDATES = 100_000_000  # a day of the quickest; more is a slip of the keyboard, and would never end
_MOST_PASSES = 1_000_000
_BLOCK = "a block of settings (key: value)"


def _type_hints(cls: type) -> dict[str, Any]:
    """Looked up once for each block of settings: that takes most of the time of reading them."""
    if cls not in _hints:
        _hints[cls] = get_type_hints(cls)
    return _hints[cls]


def setting(
    default: Any,
    help: str = "",
    *,
    was: str = "",
    low: float | None = None,
    high: float | None = None,
    old_values: Mapping[Any, Any] | None = None,
) -> Any:
    """A dataclass field that explains itself.

    Args:
        default: the value, or a function that makes it (for blocks, lists and dicts).
        help: one line for people: what it does, in which unit, and what 0 or an empty value means.
        was: the name it had in earlier versions, which is still accepted with a note.
        low: the smallest number allowed (for a list: of each entry).
        high: the largest number allowed.
        old_values: what earlier versions called some values → what they are now.

    Example:
        >>> @dataclass(frozen=True)
        ... class Options:
        ...     keep: float = setting(0.5, "Share of sentences to keep.", low=0, high=1)
        >>> build(Options, {"keep": 2}, "options")
        Traceback (most recent call last):
        nershift.errors.ConfigError: options.keep: found 2.0
          expected: a number, 0 to 1
          what it is: Share of sentences to keep.
    """
    metadata = {"help": help, "was": was, "low": low, "high": high, "old_values": old_values or {}}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class WordsConfig:
    """Word vectors of the recurrent encoder."""

    vectors: str = setting("", "Text file of word vectors (GloVe, word2vec, fastText). Empty: random vectors.")
    subwords: str = setting(
        "", "Folder of a transformer instead: a word vector is the mean of its sub-word rows, cut to `size`."
    )
    size: int = setting(100, "Dimensions of random vectors; a vector file has its own.", low=1)
    lower: bool = setting(True, "Share one vector among all casings of a word; the character CNN still sees the case.")
    train: bool = setting(True, "Train the vectors of words seen in training.")
    extra_words: int = setting(
        100_000,
        "Further words of the vector file to keep, frozen, for text not seen in training.",
        was="reserve",
        low=0,
    )
    word_dropout: float = setting(
        0.0, "Share of words replaced by the unknown word in training; 0: none.", was="drop", low=0, high=1
    )


@dataclass(frozen=True)
class CharsConfig:
    """Character CNN: one convolution per width, max-pooled over the word."""

    use: bool = setting(True, "Read the characters of each word too.")
    size: int = setting(30, "Dimensions of a character vector.", low=1)
    widths: tuple[int, ...] = setting((2, 3, 4, 5), "Widths of the convolutions, in characters.", low=1)
    filters: int = setting(100, "Filters in total, shared among the widths.", low=1)
    max_length: int = setting(
        30, "Characters read per word; a longer word keeps its first and last halves.", low=1, high=10_000
    )


@dataclass(frozen=True)
class RecurrentConfig:
    """Bidirectional recurrent layers."""

    cell: Literal["gru", "lstm"] = setting("gru", "Recurrent cell.")
    size: int = setting(128, "Hidden units per direction.", low=1)
    layers: int = setting(1, "Number of layers.", low=1)


@dataclass(frozen=True)
class TransformerConfig:
    """A pretrained transformer."""

    name: str = setting("", "Local folder or hub name; `A+B` concatenates the states of two encoders.")
    max_subwords: int = setting(
        256,
        "Sub-words per window, special ones included; longer text is read in several windows.",
        was="max_pieces",
        low=0,
    )
    overlap: int = setting(64, "Sub-words that neighbouring windows share.", low=0)
    freeze_layers: int = setting(0, "Bottom layers that are not trained; 0: all are trained.", low=0)
    freeze_embeddings: bool = setting(False, "Do not train the sub-word embeddings.")


@dataclass(frozen=True)
class EncoderConfig:
    """From tokens to states (θ in the papers)."""

    kind: str = setting("recurrent", "Registered name of the encoder.")
    words: WordsConfig = setting(WordsConfig, "Word vectors (recurrent).")
    chars: CharsConfig = setting(CharsConfig, "Character CNN (recurrent and transformer).")
    recurrent: RecurrentConfig = setting(RecurrentConfig, "Recurrent layers (recurrent).")
    transformer: TransformerConfig = setting(TransformerConfig, "Pretrained encoder (transformer).")
    input_dropout: float = setting(
        0.0, "Dropout on the concatenated word and character features; 0: off.", low=0, high=1
    )
    dropout: float = setting(0.5, "Dropout after the character CNN and on the states; 0: off.", low=0, high=1)
    options: dict[str, Any] = setting(dict, "Settings of an encoder from another package.")


@dataclass(frozen=True)
class HeadConfig:
    """From states to entities (φ in the papers)."""

    kind: str = setting("crf", "Registered name of the head.")
    scheme: Scheme = setting("BIOES", "Tag scheme of heads that tag.")
    from_source: bool = setting(
        True,
        "Start the rows of types that the source has too from the source's head; false: all rows are new.",
        was="start",
        old_values={"new": False, "carried": True},
    )
    same: dict[str, str] = setting(dict, "Target type: source type, of types that mean the same under other names.")
    new_rows: Literal["auto", "random", "prototypes", "names"] = setting(
        "auto",
        "How types start that no source's head has: at random, from the mean states of labelled tokens, or from the "
        "states of their names; auto: by the encoder.",
    )
    options: dict[str, Any] = setting(dict, "Settings that only this kind of head has.")


@dataclass(frozen=True)
class TrainConfig:
    """One stage of training."""

    optimizer: Literal["adam", "adamw", "sgd", "rmsprop", "bertadam"] = setting("adam", "Optimiser.")
    lr: float = setting(1e-3, "Learning rate.", low=0)
    encoder_lr: float | None = setting(None, "Learning rate of the encoder, if it differs.", low=0)
    words_lr: float | None = setting(None, "Learning rate of the word vectors, if it differs.", low=0)
    weight_decay: float = setting(1e-6, "Weight decay; word vectors have none.", low=0)
    momentum: float = setting(0.0, "Momentum of sgd.", low=0)
    schedule: Literal["constant", "linear", "inverse"] = setting(
        "constant", "Learning rate over time; linear falls to 0, inverse is lr / (1 + lr_decay · epoch)."
    )
    lr_decay: float = setting(
        0.05,
        "Decay rate ρ of the inverse schedule: per epoch if `epochs` gives the length, else per 100 updates.",
        was="decay",
        low=0,
    )
    warmup: float = setting(0.0, "Share of all updates over which the learning rate rises from 0.", low=0, high=1)
    clip: float = setting(5.0, "Largest norm of the whole gradient; 0: no clipping.", low=0)
    batch_size: int = setting(0, "Sentences per batch; 0: by the amount of data, 4 for few labels to 32.", low=0)
    accumulate: int = setting(1, "Batches per optimiser step.", low=1)
    max_tokens: int = setting(256, "Longer sentences are split for training; 0: never split.", was="longest", low=0)
    min_source_share: float = setting(
        0.0,
        "When corpora take turns: each gives at least this share of the largest corpus's batches per epoch.",
        was="balance",
        low=0,
        high=1,
    )
    updates: int = setting(
        0,
        "Optimiser updates. 0: `epochs` decides or, without it, the amount of data.",
        was="max_steps",
        low=0,
        high=MOST_UPDATES,
    )
    epochs: int = setting(
        0,
        "Length in passes over the training data instead. 0: updates decide. With both, the shorter.",
        low=0,
        high=_MOST_PASSES,
    )
    min_updates: int = setting(
        1000,
        "Fewest updates where the amount of data decides: with neither `updates` nor `epochs`.",
        low=1,
        high=MOST_UPDATES,
    )
    passes: int = setting(
        20,
        "Fewest passes over the training data there; many labels need more updates.",
        low=0,
        high=_MOST_PASSES,
    )
    patience: int = setting(
        0,
        "Stop after this many updates without a better dev score (epochs, if `epochs` gives the length); 0: never.",
        low=0,
    )
    average_last: float = setting(
        0.0, "Share of the last updates whose weights are averaged where no dev score selects; 0: none.", low=0, high=1
    )
    mention_replacement: float = setting(
        0.0,
        "Share of entities replaced by another entity of their type, drawn anew for every batch; 0: none.",
        was="swap",
        low=0,
        high=1,
    )
    fgm_epsilon: float = setting(
        0.0,
        "L2 norm ε of the adversarial perturbation of word embeddings (FGM), a second loss; 0: off.",
        was="perturb",
        low=0,
    )
    model_soup: int = setting(
        1,
        "Trainings from the same start whose weights are averaged, those that help on dev; 1: no averaging.",
        was="average",
        low=1,
    )
    precision: Literal["fp32", "bf16"] = setting("fp32", "Number format of the forward pass.")
    eval_batch_size: int = setting(128, "Sentences per batch when predicting.", low=1)
    cuda_graphs: bool = setting(True, "On a GPU, record the step for each batch shape and replay it.", was="record")
    checkpoint_steps: int = setting(0, "Write a checkpoint every so many steps; 0: by time alone.", low=0)
    checkpoint_seconds: float = setting(60.0, "Write a checkpoint at least this often, in seconds.", low=0)


@dataclass(frozen=True)
class Config:
    """A run is its config: everything that decides the result, apart from data and code."""

    method: str = setting("target_only", "Registered name of the method.")
    preset: str = setting("default", "Named settings of the method to start from: our best, or those of a paper.")
    seed: int = setting(1, "Seed of subset, weights and batches.", low=0)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        "auto", "Device to train on; auto takes a GPU if there is one."
    )
    selection: Literal["auto", "dev", "held_out", "last"] = setting(
        "auto",
        "Which weights to keep. dev: the best on the dev split. held_out: the best on a fifth of the labels. last: the "
        "last ones, averaged as train.average_last says. auto: with --shots or --ratio last, as if those labels were "
        "all there are; else dev if there is a dev split.",
    )
    tensorboard: bool = setting(False, "Also write TensorBoard logs.")
    encoder: EncoderConfig = setting(EncoderConfig, "From tokens to states.")
    head: HeadConfig = setting(HeadConfig, "From states to entities.", was="decoder")
    train: TrainConfig = setting(TrainConfig, "Training on the target.")
    pretrain: TrainConfig = setting(TrainConfig, "Training on the sources, before the target.")
    options: dict[str, Any] = setting(dict, "Settings of the method itself.")


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
    import yaml

    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)


def build(cls: type[T], values: Mapping[str, Any], place: str = "config", *, saved: bool = False) -> T:
    """Make a config dataclass from nested plain values; every mistake is a :class:`ConfigError`.

    Args:
        saved: the values come from a file that this library wrote, so old names need no note.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"found {values!r}", place=place, expected=_BLOCK)
    hints = _type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    converted = {}
    for key, value in current_names(cls, values, place, saved=saved).items():
        if key not in fields:
            raise _unknown(str(key), fields, place)
        here, hint, field = f"{place}.{key}", hints[key], fields[key]
        if dataclasses.is_dataclass(hint):
            converted[key] = build(hint, value, here)  # type: ignore[arg-type]
            continue
        try:
            converted[key] = _convert(hint, value)
            _check_range(field, converted[key])
        except ValueError as error:
            about = field.metadata.get("help", "")
            raise ConfigError(str(error), place=here, expected=_expected(hint, field), about=about) from None
    return cls(**converted)


def _unknown(key: str, fields: Mapping[str, dataclasses.Field[Any]], place: str) -> ConfigError:
    near = closest(key, fields)
    about = f"{near}: {fields[near].metadata.get('help', '')}" if near else ""
    found = f"unknown setting '{key}'{nearest(key, fields)}"
    return ConfigError(found, place=place, expected=", ".join(sorted(fields)), about=about)


def current_names(
    cls: type, values: Mapping[str, Any], place: str = "config", *, saved: bool = False
) -> dict[str, Any]:
    """The same settings under today's names; a name of an earlier version is accepted with a note."""
    fields = dataclasses.fields(cls)
    renamed = {f.metadata["was"]: f.name for f in fields if f.metadata.get("was")}
    old_values = {f.name: f.metadata.get("old_values", {}) for f in fields}
    hints, current = _type_hints(cls), dict[str, Any]()
    for key, value in values.items():
        if key in renamed:
            old, key = f"{place}.{key}", renamed[key]
            if not saved and old not in _noted:
                _noted.add(old)
                log.warning("%s is now called %s; the old name still works in this version", old, key)
        if isinstance(value, str):
            value = old_values.get(key, {}).get(value, value)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(hints.get(key)):
            value = current_names(hints[key], value, f"{place}.{key}", saved=saved)
        current = merge(current, {key: value})
    return current


def _expected(hint: Any, field: dataclasses.Field[Any]) -> str:
    """What values a setting takes, as an error says it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return f"{_expected(args[0], field)}; or null"
    if origin is tuple:
        return f"a list, e.g. [2, 3]; each entry {_expected(args[0], field)}"
    if origin is dict or hint is dict:
        return _BLOCK
    kind = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, "")
    return ", ".join(part for part in (kind, allowed(hint, field)) if part)


def allowed(hint: Any, field: dataclasses.Field[Any]) -> str:
    """The choices or the range of a setting, if it has any."""
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}"
    return f"{_number(low)} or more" if low is not None else f"{_number(high)} or less" if high is not None else ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True)
class SettingInfo:
    """One setting of a config, for people: its dotted name, value, default, choices or range, and help."""

    name: str
    value: Any
    default: Any
    allowed: str
    help: str


def settings_of(config: Any, block: str = "") -> Iterator[SettingInfo]:
    """Every setting of a config and of the blocks in it.

    Example:
        >>> row = next(settings_of(TrainConfig(optimizer="sgd"), "train"))
        >>> row.name, row.value, row.default, row.help
        ('train.optimizer', 'sgd', 'adam', 'Optimiser.')
    """
    hints = _type_hints(type(config))
    for f in dataclasses.fields(config):
        name, value = f"{block}.{f.name}" if block else f.name, getattr(config, f.name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, name)
            continue
        default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        yield SettingInfo(name, value, default, allowed(hints[f.name], f), f.metadata.get("help", ""))


def _check_range(field: dataclasses.Field[Any], value: Any) -> None:
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if value is None or (low is None and high is None):
        return
    low, high = float("-inf") if low is None else low, float("inf") if high is None else high
    values = value if isinstance(value, tuple) else (value,)
    if not all(low <= v <= high for v in values) or (value == () != field.default):
        raise ValueError(f"found {value!r}")


def _convert(hint: Any, value: Any) -> Any:
    """The value in the type of its field.

    Raises:
        ValueError: that says what was found.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in args:
            raise ValueError(f"found {value!r}{nearest(str(value), map(str, args))}")
        return value
    if origin in (Union, types.UnionType):
        return None if value is None and type(None) in args else _convert(args[0], value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"found {value!r}")
        return tuple(_convert(args[0], v) for v in value)
    if origin is dict or hint is dict:
        if not isinstance(value, Mapping):
            raise ValueError(f"found {value!r}")
        return dict(value)
    if hint is float and isinstance(value, str):
        with suppress(ValueError):  # YAML reads 1e-3 as text
            value = float(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(f"found {value!r} ({type(value).__name__})")
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
            value: Any = parse_yaml(text)
        except ValueError as error:
            found = f"cannot read the value of '{pair}' ({error})"
            raise ConfigError(found, place="--set", expected="a YAML value") from None
        for part in reversed(key.split(".")):
            value = {part: value}
        out = merge(out, value)
    return out


def read_yaml(path: str | Path) -> dict[str, Any]:
    """A YAML file as a nested dict, with the line of a syntax error in the message."""
    try:
        values = parse_yaml(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError("no such file", place=str(path), fix="check the path given to --config") from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", place=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", place=str(path), fix="save the file as UTF-8") from None
    except ValueError as error:
        line = getattr(error, "line", None)
        raise ConfigError(f"not YAML: {error}", place=f"{path}:{line}" if line else str(path)) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"found a {type(values).__name__}", place=str(path), expected="a block of settings (key: value)"
        )
    return values
