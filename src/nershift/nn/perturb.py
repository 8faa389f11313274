"""Adversarial training on word and character vectors (DATNet eqs. 3-4).

The clean pass is run from vectors that keep their gradient, so that its backward pass, which the weights need
anyway, also yields the direction in which each sentence is moved. The moved sentences then cost one more
forward and one more backward pass, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.nn.recurrent import RecurrentEncoder


@dataclass(frozen=True)
class Vectors:
    """Input vectors of a batch, one set a token: each occurrence of a word can be moved on its own."""

    words: Tensor  # [B, L, D]
    chars: Tensor | None  # [B, L, W, C]
    letters: Tensor | None  # [B, L, W]: where a letter stands

    @classmethod
    def of(cls, encoder: RecurrentEncoder, inputs: Mapping[str, Tensor]) -> Vectors:
        """What the tables say of a batch (the inputs are those of ``encoder.collate``)."""
        words = encoder.words(inputs["rows"])[inputs["where"]]
        if encoder.chars is None:
            return cls(words, None, None)
        # Vectors of distinct words first: far fewer look-ups, and far fewer rows to add up on the way back.
        spelled = encoder.chars.embedding(inputs["chars"])  # [U, W, C]
        return cls(words, spelled[inputs["where"]], (inputs["chars"] != 0)[inputs["where"]])

    def keep_gradients(self) -> Vectors:
        """The same vectors, whose ``.grad`` is there after the backward pass, frozen tables or not."""
        words = self.words if self.words.requires_grad else self.words.detach().requires_grad_()
        for value in (words, self.chars):
            if value is not None and not value.is_leaf:
                value.retain_grad()
        return Vectors(words, self.chars, self.letters)

    def moved(self, by: Moves) -> Vectors:
        chars = self.chars if self.chars is None or by.chars is None else self.chars + by.chars
        return Vectors(self.words + by.words, chars, self.letters)

    def states(self, encoder: RecurrentEncoder, lengths: Tensor) -> Tensor:
        """``encoder.forward`` from here on: ``[B, L, size]``."""
        parts = [self.words]
        if encoder.chars is not None and self.chars is not None and self.letters is not None:
            b, n = self.letters.shape[:2]
            features = encoder.chars.convolve(self.chars.flatten(0, 1), self.letters.flatten(0, 1))
            parts.append(encoder.dropout(features.view(b, n, -1)))
        return encoder.contextualise(encoder.input_dropout(torch.cat(parts, -1)), lengths)


@dataclass(frozen=True)
class Moves:
    """η of eq. 3 for the word and the character vectors of a batch; no gradient passes through it."""

    words: Tensor  # [B, L, D]
    chars: Tensor | None  # [B, L, W, C]

    @classmethod
    def against(cls, vectors: Vectors, words: float, chars: float) -> Moves:
        """From the gradients a backward pass left; ``words`` and ``chars`` are the ε of each."""
        found = None if vectors.chars is None else vectors.chars.grad
        return cls(
            direction(_gradient(vectors.words), words), None if found is None else direction(found, chars)
        )


def _gradient(vectors: Tensor) -> Tensor:
    assert vectors.grad is not None, "run the backward pass on vectors that keep their gradients first"
    return vectors.grad


def direction(gradient: Tensor, epsilon: float) -> Tensor:
    """``ε g / ‖g‖₂`` with one norm a sentence, over all axes but the first; zero where the gradient is."""
    g = gradient.detach()
    largest = g.abs().flatten(1).amax(1).clamp_min(torch.finfo(g.dtype).tiny)  # squares must not underflow
    g = g / largest.view(-1, *[1] * (g.dim() - 1))
    norm = g.flatten(1).norm(dim=1).clamp_min(torch.finfo(g.dtype).tiny)
    return epsilon * g / norm.view(-1, *[1] * (g.dim() - 1))
