"""A model as a folder: `model.json` (shapes, words, labels), `model.safetensors`, a tokenizer's files, a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nershift.backend.allocation import at_most
from nershift.encoders.base import rebuild_encoder
from nershift.encoders.learned_rates import LearnedRates
from nershift.errors import CheckpointError
from nershift.heads.base import Head, head_from
from nershift.manifest import check_files, manifested
from nershift.model import TaggingModel
from nershift.parsing import parse_json
from nershift.storage import load_tensors, rebuilding, save_tensors, tensor_sizes, write_text

FORMAT = 2
_RATES = "extras.learned_rates.log"
_READABLE = (1, FORMAT)  # format 1 called heads decoders
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_MORE = 4  # tensors made for a model may have so many times the elements of its weights,
_SMALL = 1 << 24  # and these: tables of positions, masks and the like are not saved


def save_model(folder: Path, model: TaggingModel, meta: Mapping[str, Any]) -> None:
    """Write encoder and heads; of a method's extra parts, learned rates alone.

    ``model.json`` comes last but for the manifest: it completes the folder.
    """
    description = {
        "format": FORMAT,
        "encoder": model.encoder.describe(),
        "heads": {key: head.describe() for key, head in model.named_heads()},
        "meta": dict(meta),
    }
    if model.learned_rates is not None:
        description["learned_rates"] = True
    tensors = {k: v for k, v in model.state_dict().items() if not k.startswith("extras.") or k == _RATES}
    with manifested(folder):
        model.encoder.save_files(str(folder))
        save_tensors(folder / "model.safetensors", tensors, {})
        write_text(folder / "model.json", json.dumps(description, ensure_ascii=False))


def load_model(folder: Path, verify: bool = True) -> tuple[TaggingModel, dict[str, Any]]:
    """The model of a folder and its notes.

    Args:
        verify: compare the hashes of all files with the manifest, where there is one.

    Raises:
        CheckpointError: there is none, or it is damaged. Nothing is made that its weights could not fill.
    """
    path = folder / "model.json"
    description = _describe(path)
    if verify:
        check_files(folder)
    sizes = tensor_sizes(folder / "model.safetensors")
    with rebuilding(path), at_most(_SMALL + _MORE * sum(sizes.values())):
        model = _rebuild(description, folder)
        meta = dict(description["meta"])
    _load_weights(model, folder / "model.safetensors")
    return model.eval(), meta


def _describe(path: Path) -> dict[str, Any]:
    try:
        description = parse_json(path.read_text(encoding="utf-8"))
    except OSError:
        if (path.parent / "config.yaml").exists() and not (path.parent / "metrics.json").exists():
            raise CheckpointError(
                "the run in it is not finished",
                place=str(path.parent),
                expected="the folder of a finished run",
                fix="resume it: repeat the command that began it, with the same --out and without --overwrite",
            ) from None
        raise CheckpointError(
            "no model here",
            place=str(path.parent),
            expected="a folder with model.json and model.safetensors",
            fix="give the --out folder of a finished run",
        ) from None
    except ValueError as error:
        raise CheckpointError(
            f"not readable JSON ({error})", place=str(path), fix="train again or restore it"
        ) from None
    version = description.get("format") if isinstance(description, dict) else None
    if version not in _READABLE:
        raise CheckpointError(
            f"format {version!r}",
            place=str(path),
            expected=f"format {FORMAT} or older",
            fix="use the version of nershift that wrote it, or train again",
        )
    return dict(description)


def _rebuild(description: Mapping[str, Any], folder: Path) -> TaggingModel:
    described = description["heads" if description["format"] > 1 else "decoders"]
    encoder = rebuild_encoder(description["encoder"], str(folder))
    heads = {key: head_from(d, encoder.size) for key, d in described.items()}
    extras = {"learned_rates": LearnedRates(encoder).requires_grad_(False)} if "learned_rates" in description else {}
    return TaggingModel(encoder, heads, extras)


def _load_weights(model: TaggingModel, path: Path) -> None:
    heads = [(name, module) for name, module in model.named_modules() if isinstance(module, Head)]
    retired = tuple(f"{name}.{part}." for name, head in heads for part in head.retired)
    stored = {_present_name(name): value for name, value in load_tensors(path)[0].items()}
    tensors = {name: value for name, value in stored.items() if not name.startswith(retired)}
    expected = model.state_dict()
    shapes = {name: tuple(value.shape) for name, value in expected.items()}
    saved = {name: tuple(value.shape) for name, value in tensors.items()}
    odd = sorted(set(shapes.items()) ^ set(saved.items()))
    if odd:
        raise CheckpointError(
            f"its weights do not fit model.json, e.g. {odd[0][0]}",
            place=str(path),
            fix="restore both files from the same run",
        )
    for name, value in tensors.items():
        if wrong := _unusable(value, expected[name]):
            fix = "restore the file, or train again"
            raise CheckpointError(f"{name} {wrong}", place=str(path), expected="finite weights", fix=fix)
    model.load_state_dict(tensors)


def _unusable(value: Tensor, expected: Tensor) -> str:
    """What is wrong with a stored tensor; weights may have been stored with less precision."""
    if value.dtype != expected.dtype and not (value.dtype in _FLOATS and expected.is_floating_point()):
        return f"is of type {value.dtype}, not {expected.dtype}"
    return "" if torch.isfinite(value).all() else "has values that are no finite numbers"


def _present_name(tensor: str) -> str:
    """Today's name of a tensor of format 1."""
    return tensor.replace("decoders.", "heads.", 1) if tensor.startswith("decoders.") else tensor
