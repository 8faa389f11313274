"""Encoders of two resources that share characters and a BiLSTM, with private layers or without (§3.2)."""

from __future__ import annotations

from collections import Counter

from torch import Tensor, nn

from nershift.config import EncoderConfig, WordsConfig
from nershift.encoders.base import register
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import Words, make_words
from nershift.errors import ConfigError
from nershift.text.word_cache import Vocabulary


@register("shared-private")
class SharedPrivateEncoder(RecurrentEncoder):
    """DATNet-P, Figure 1(b): the states of a ``private`` BiLSTM, then those of the shared ``recurrent``.

    Each has ``config.recurrent.size`` units per direction. A trained encoder is complete: sharing a layer with
    another encoder matters in training only.
    """

    def __init__(self, config: EncoderConfig, words: Words, characters: Vocabulary) -> None:
        super().__init__(config, words, characters)
        shared = self.recurrent
        self.private = type(shared)(
            shared.input_size, shared.hidden_size, shared.num_layers, batch_first=True, bidirectional=True
        )
        self.size = 2 * self.size

    def layers(self) -> list[nn.RNNBase]:
        return [self.private, self.recurrent]


def make_pair(
    config: EncoderConfig, target: Words, source: Words, characters: Vocabulary, *, private: bool
) -> tuple[RecurrentEncoder, RecurrentEncoder]:
    """Encoders of target and source that share all but word vectors and private layers.

    ``target`` and ``source`` may be the same table. ``characters`` must cover both texts.
    """
    cls = SharedPrivateEncoder if private else RecurrentEncoder
    ours = cls(config, target, characters)
    theirs = cls(config, source, characters)
    theirs.chars, theirs.recurrent = ours.chars, ours.recurrent
    return ours, theirs


def encoders_for(
    config: EncoderConfig,
    target: Counter[str],
    source: Counter[str],
    *,
    source_words: WordsConfig | None,
    private: bool,
) -> tuple[RecurrentEncoder, RecurrentEncoder]:
    """:func:`make_pair` for two texts, given as word counts; seed torch before.

    Args:
        source_words: settings of the source's own word vectors; None: both sides share one table.
    """
    letters = Vocabulary(sorted({letter for word in target | source for letter in word}))
    table = make_words(config.words, target + source if source_words is None else target)
    other = table if source_words is None else make_words(source_words, source)
    if other.size != table.size:
        raise ConfigError(
            f"word vectors of {table.size} dimensions for the target and {other.size} for the source",
            place="options.source_words",
            expected="one dimension, since both feed one LSTM",
            fix="sub-word vectors can be cut to any size: --set encoder.words.size=N",
        )
    return make_pair(config, table, other, letters, private=private)


def shared_part(encoder: RecurrentEncoder, states: Tensor) -> Tensor:
    """The states of the shared layer, ``[B, L, shared]``: all that the discriminator sees."""
    return states[..., encoder.size - shared_size(encoder) :]


def shared_size(encoder: RecurrentEncoder) -> int:
    return encoder.size // 2 if isinstance(encoder, SharedPrivateEncoder) else encoder.size
