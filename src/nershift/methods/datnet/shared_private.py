"""Encoders of two domains that share characters and a recurrent layer, with or without private ones (DATNet §3.2)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from nershift.config import EncoderConfig
from nershift.encoders.base import register
from nershift.encoders.birnn import bidirectional
from nershift.encoders.recurrent import RecurrentEncoder, Words
from nershift.text.word_cache import Vocabulary


@register("shared-private")
class SharedPrivateEncoder(RecurrentEncoder):
    """Two recurrent layers side by side: states are those of ``private``, then those of the shared ``recurrent``.

    Each has ``config.recurrent.size`` units a direction. A trained encoder is whole in itself: what it shares
    with the encoder of another domain is a matter of training alone.
    """

    def __init__(self, config: EncoderConfig, words: Words, characters: Vocabulary) -> None:
        super().__init__(config, words, characters)
        shared = self.recurrent
        self.private = type(shared)(
            shared.input_size, shared.hidden_size, shared.num_layers, batch_first=True, bidirectional=True
        )
        self.size = 2 * self.size

    def contextualise(self, x: Tensor, lengths: Tensor) -> Tensor:
        states = [bidirectional(layer, x, lengths) for layer in (self.private, self.recurrent)]
        return self.dropout(torch.cat(states, -1))  # [B, L, private + shared]


def make_pair(
    config: EncoderConfig, target: Words, source: Words, characters: Vocabulary, *, private: bool
) -> tuple[RecurrentEncoder, RecurrentEncoder]:
    """Encoders of target and source, in this order, that share all but their words and private layers.

    ``target`` and ``source`` may be one and the same table. The letters must be those of both texts.
    """
    cls = SharedPrivateEncoder if private else RecurrentEncoder
    ours = cls(config, target, characters)
    theirs = cls(config, source, characters)
    theirs.chars, theirs.recurrent = ours.chars, ours.recurrent
    return ours, theirs


def shared_part(encoder: RecurrentEncoder, states: Tensor) -> Tensor:
    """The states of the shared layer, ``[B, L, shared]``: what an adversary may look at."""
    if isinstance(encoder, SharedPrivateEncoder):
        return states[..., encoder.size // 2 :]
    return states


def shared_size(encoder: RecurrentEncoder) -> int:
    return encoder.size // 2 if isinstance(encoder, SharedPrivateEncoder) else encoder.size


def shared_parameters(encoder: RecurrentEncoder) -> list[nn.Parameter]:
    """The weights of the shared recurrent layer."""
    return list(encoder.recurrent.parameters())


def sized(config: EncoderConfig, size: int) -> EncoderConfig:
    """The same settings with ``size`` units a direction."""
    return replace(config, recurrent=replace(config.recurrent, size=size))
