"""Decoder-only models adapted to read in both directions, by masked next-token prediction.

Some sub-words are masked, as for a masked language model. Each is predicted from the state of the sub-word before it:
that is what the model has learned, as its head says what comes next. But now that state also sees what comes after the
mask (LLM2Vec, BehnamGhader et al. 2024).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from nershift.dapt.low_rank import add_changes, merge_changes
from nershift.dapt.masked_lm import MaskedLM
from nershift.encoders.decoder_only import known_as_decoder, reads_both_ways, save_config
from nershift.encoders.transformer import SAFE, quiet_transformers
from nershift.errors import ConfigError
from nershift.text.subword_vectors import find_encoder

RANK = 64  # of the changes, unless the settings say another one


class NextTokenLM(MaskedLM):
    """A decoder-only encoder with the head that predicts the next sub-word: its table of sub-words, turned round.

    Args:
        rank: of the changes to linear layers, which alone are trained; 0: all weights are; None: ``RANK``.
    """

    def __init__(self, name: str, max_subwords: int, rank: int | None = None) -> None:
        super().__init__(name, max_subwords)
        encoder = self.encoder
        if not encoder.before:
            raise ConfigError(
                f"the tokenizer of '{name}' puts nothing before a text, to predict its first sub-word from",
                place="--encoder",
                expected="a tokenizer that begins with a special sub-word",
            )
        if not reads_both_ways(encoder.model, (encoder.frame.unknown, encoder.pad)):
            raise ConfigError(
                f"'{name}' reads forwards only",
                place="--encoder",
                expected="a decoder-only model that reads in both directions",
                fix='set "use_bidirectional_attention": true in its config.json, if its architecture has that',
            )
        rank = RANK if rank is None else rank
        if rank:
            add_changes(encoder.model, rank)

    def _load(self, name: str) -> tuple[Any, bool]:
        from transformers import AutoModelForCausalLM

        with quiet_transformers():
            model = AutoModelForCausalLM.from_pretrained(find_encoder(name), **SAFE).float()
        model.config.tie_word_embeddings = True
        model.tie_weights()
        return model, False

    def logits(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        return super().logits(input_ids, attention_mask, positions - 1)  # a special sub-word begins each row

    def save(self, folder: Path) -> None:
        merge_changes(self.encoder.model)
        self.encoder.model.save_pretrained(folder)
        save_config(self.encoder.model.config, folder)
        self.encoder.tokenizer.save_pretrained(folder)


def language_model(name: str, max_subwords: int, rank: int | None = None) -> MaskedLM:
    """The checkpoint with the head that suits its architecture."""
    return (
        NextTokenLM(name, max_subwords, rank) if known_as_decoder(find_encoder(name)) else MaskedLM(name, max_subwords)
    )
