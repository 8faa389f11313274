"""An encoder with a head that predicts masked sub-words: its own where the checkpoint has one, else a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from nershift.config import CharsConfig, EncoderConfig, TransformerConfig
from nershift.encoders.transformer import TransformerEncoder, find_encoder, load_pretrained, quiet_transformers
from nershift.errors import ConfigError
from nershift.text.word_cache import Vocabulary

# Where families of encoders keep the head's dense layer, its normalisation and the bias of each sub-word.
_HEADS = (
    ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
)


class MaskedHead(nn.Module):
    """Scores of all sub-words: dense, GELU, normalisation, then the encoder's own sub-word table."""

    def __init__(self, dense: nn.Linear, norm: nn.LayerNorm, bias: nn.Parameter) -> None:
        super().__init__()
        self.dense, self.norm, self.bias = dense, norm, bias

    @classmethod
    def new(cls, size: int, pieces: int) -> MaskedHead:
        dense = nn.Linear(size, size)
        nn.init.normal_(dense.weight, std=0.02)
        nn.init.zeros_(dense.bias)
        return cls(dense, nn.LayerNorm(size), nn.Parameter(torch.zeros(pieces)))

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """``[N, H]`` and the table ``[V, H]`` → ``[N, V]``."""
        return linear(self.norm(gelu(self.dense(states))), table, self.bias)


class MaskedEncoder:
    """Encoder and head of a checkpoint, and how to save them as one that others can load.

    Args:
        name: a folder, a name in the folder of encoders, or a hub name.
        max_pieces: sub-words a row, special ones included.
    """

    def __init__(self, name: str, max_pieces: int) -> None:
        base, tokenizer = load_pretrained(name)
        if tokenizer.mask_token_id is None:
            raise ConfigError(
                f"the tokenizer of '{name}' has no mask token",
                place="--encoder",
                expected="a masked language model",
            )
        self.whole, self.head_is_new = _with_head(find_encoder(name), base)
        head = _head_of(self.whole) if self.whole is not None else None
        self.head = head or MaskedHead.new(base.config.hidden_size, base.get_input_embeddings().num_embeddings)
        config = EncoderConfig(
            kind="transformer",
            transformer=TransformerConfig(name=name, max_subwords=max_pieces),
            chars=CharsConfig(use=False),
            dropout=0.0,
        )
        model = self.whole.base_model if self.whole is not None else base
        self.encoder = TransformerEncoder(config, model, tokenizer, Vocabulary())

    def save(self, folder: Path) -> None:
        """Write a folder that ``encoder.transformer.name`` takes, with the head where its family has a place for it."""
        (self.whole if self.whole is not None else self.encoder.model).save_pretrained(folder)
        self.encoder.tokenizer.save_pretrained(folder)


def _with_head(name: str, base: Any) -> tuple[Any, bool]:
    """The checkpoint as a masked language model (None if its family has no such form), and whether the head is new."""
    from transformers import AutoModelForMaskedLM

    try:
        with quiet_transformers():  # a head that lacks is made, and the log says so
            whole, told = AutoModelForMaskedLM.from_pretrained(name, output_loading_info=True)
    except ValueError:  # a family without a head of its own
        return None, True
    if _head_of(whole) is None:
        return None, True
    whole = whole.float()
    whole.config.tie_word_embeddings = True
    whole.tie_weights()
    prefix = f"{whole.base_model_prefix}."
    return whole, any(not key.startswith(prefix) for key in told["missing_keys"])


def _head_of(whole: Any) -> MaskedHead | None:
    """The head's layers, shared with the model they belong to; None for an unknown family."""
    for dense, norm, bias in _HEADS:
        try:
            parts = whole.get_submodule(dense), whole.get_submodule(norm), whole.get_parameter(bias)
        except AttributeError:
            continue
        return MaskedHead(*parts)
    return None
