"""Sentence vectors for retrieval (eq. 5): any transformers encoder, pooled at its first position or over all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from nershift.encoders.attention import steady_kernels
from nershift.encoders.transformer import load_pretrained
from nershift.methods.metacross.token_classifier import transformer_of
from nershift.model import TaggingModel

Pooling = Literal["cls", "mean", "words"]


class SentenceVectors:
    """Callable on lists of tokens.

    Args:
        pooling: ``cls``, the last state of the first position (eq. 5); ``mean`` of the last states; ``words``, the
            mean of the input embeddings, which runs no layer and suits tables in which translations are close.
        max_subwords: of a longer sentence, only the beginning is read.
    """

    def __init__(self, model: Any, tokenizer: Any, pooling: Pooling, max_subwords: int = 128) -> None:
        self.model, self.tokenizer, self.pooling = model, tokenizer, pooling
        # Some families count positions from the padding id on.
        positions = getattr(model.config, "max_position_embeddings", None) or max_subwords + 1
        self.max_subwords = min(max_subwords, positions - 1 - (tokenizer.pad_token_id or 0))

    @classmethod
    def load(cls, name: str, pooling: Pooling) -> SentenceVectors:
        """From a folder or hub name, with its weights as they were pre-trained."""
        model, tokenizer = load_pretrained(name)
        return cls(model.eval(), tokenizer, pooling)

    @classmethod
    def of_words(cls, model: TaggingModel) -> SentenceVectors:
        """The mean input embedding of a tagger's own encoder."""
        encoder = transformer_of(model)
        return cls(encoder.model, encoder.tokenizer, "words")

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def to(self, device: torch.device | str) -> SentenceVectors:
        self.model.to(device)
        return self

    @torch.no_grad()
    def __call__(self, rows: Sequence[Sequence[str]], batch_size: int = 64) -> Tensor:
        """[n, H] in the order of the rows, on the CPU; zeros for an empty row."""
        table = self.model.get_input_embeddings().weight
        out = torch.zeros(len(rows), table.shape[1])
        order = sorted((i for i, row in enumerate(rows) if row), key=lambda i: len(rows[i]))
        was_training = self.model.training
        self.model.eval()
        for start in range(0, len(order), batch_size):
            part = order[start : start + batch_size]
            ids = self.tokenizer(
                [list(rows[i]) for i in part],
                is_split_into_words=True,
                truncation=True,
                max_length=self.max_subwords,
                add_special_tokens=self.pooling != "words",
            )["input_ids"]
            out[part] = self._pooled(ids, table.device).float().cpu()
        self.model.train(was_training)
        return out

    def _pooled(self, rows: list[list[int]], device: torch.device) -> Tensor:
        if self.pooling == "words":
            flat = torch.tensor([i for row in rows for i in row], dtype=torch.long, device=device)
            starts = torch.tensor([0, *map(len, rows[:-1])], device=device).cumsum(0)
            return embedding_bag(flat, self.model.get_input_embeddings().weight, starts, mode="mean")
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.tokenizer.pad_token_id or 0] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows]).to(device)
        ids = ids.to(device)
        with steady_kernels(ids):
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state  # [B, S, H]
        if self.pooling == "cls":
            return states[:, 0]
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
