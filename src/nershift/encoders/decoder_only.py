"""Decoder-only architectures (Gemma and its like) as encoders: do they read both ways, and stay as they are?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from nershift.storage import write_text

_BOTH_WAYS, _WINDOW = "use_bidirectional_attention", "sliding_window"


def is_decoder_only(model: Any) -> bool:
    """Is this an architecture that transformers knows for predicting the next sub-word, and not masked ones?"""
    return _predicts_next(model.config.model_type)


def known_as_decoder(name: str) -> bool:
    """The same for a folder or hub name; False for what cannot be read, so that whoever loads it says why."""
    from transformers import AutoConfig

    try:
        return _predicts_next(AutoConfig.from_pretrained(name, trust_remote_code=False).model_type)
    except (OSError, ValueError, KeyError):
        return False


def _predicts_next(architecture: str) -> bool:
    from transformers.models.auto import modeling_auto as known

    return (
        architecture in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and architecture not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )


@torch.no_grad()
def reads_both_ways(model: Any, sub_words: tuple[int, int]) -> bool:
    """Does the state of a sub-word depend on what comes after it? ``sub_words`` are two different ones."""
    was_training = model.training
    model.eval()
    rows = torch.tensor([[sub_words[0]] * 3, [sub_words[0]] * 2 + [sub_words[1]]], device=model.device)
    first, other = model(input_ids=rows, attention_mask=torch.ones_like(rows)).last_hidden_state[:, 0]
    model.train(was_training)
    return not torch.allclose(first, other, atol=1e-6)


def save_config(config: Any, folder: Path) -> None:
    """Write ``config.json`` so that it is read back as it is.

    Some versions of transformers halve the attention window of a model that reads in both directions whenever they read
    it, but do not double it when they write: each time a model is saved, it would see less.
    """
    from transformers import AutoConfig

    config.save_pretrained(folder)
    if not getattr(config, _BOTH_WAYS, False) or not getattr(config, _WINDOW, None):
        return
    if getattr(AutoConfig.from_pretrained(folder), _WINDOW) != getattr(config, _WINDOW):
        path = folder / "config.json"
        values = json.loads(path.read_text(encoding="utf-8"))
        values[_WINDOW] = 2 * (getattr(config, _WINDOW) - 1)
        write_text(path, json.dumps(values, indent=2))
