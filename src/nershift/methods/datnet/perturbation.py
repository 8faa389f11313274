"""Adversarial training on word and character vectors (DATNet eqs. 3-4).

The clean pass keeps the gradients of its inputs, so that its backward pass, which the weights need anyway, also
yields the direction in which each sentence is moved. The moved sentences then cost one more forward and one more
backward pass. Every token is moved on its own, though the clean pass reads each distinct word but once: what the
character CNN's output asks of a token is handed down to its letters by :func:`letter_gradient`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.backend.lookup import look_up
from nershift.encoders.chars import CharCNN
from nershift.encoders.recurrent import RecurrentEncoder


@dataclass(frozen=True)
class Features:
    """What the recurrent layer reads of a batch: word vectors and the character CNN's output, token by token.

    The functions that make them take ``vectors [U, D]`` of the batch's distinct words, which may come from several
    tables, and ``inputs`` as an encoder's ``collate`` makes them.
    """

    words: Tensor  # [B, L, D]
    chars: Tensor | None  # [B, L, F]
    windows: Tensor | None = None  # [U, F]: where the character CNN found them

    @classmethod
    def clean(cls, cnn: CharCNN | None, vectors: Tensor, inputs: Mapping[str, Tensor], keep: bool = True) -> Features:
        """Those of a batch; ``keep``: with their gradients, from which :class:`Moves` are made."""
        words = look_up(vectors, inputs["where"])
        if keep and not words.requires_grad:  # a frozen table
            words = words.detach().requires_grad_()
        chars = windows = None
        if cnn is not None:
            read, windows = cnn.scan(inputs["chars"])
            chars = look_up(read, inputs["where"])
        for value in (words, chars):
            if keep and value is not None and not value.is_leaf:
                value.retain_grad()
        return cls(words, chars, windows)

    @classmethod
    def moved(cls, cnn: CharCNN | None, vectors: Tensor, inputs: Mapping[str, Tensor], by: Moves) -> Features:
        """Those of the same batch with its vectors moved; the tables learn from these as well."""
        where = inputs["where"]
        words = look_up(vectors, where) + by.words
        if cnn is None or by.chars is None:
            return cls(words, None)
        spelled = look_up(cnn.embedding(inputs["chars"]), where) + by.chars  # [B, L, W, C]
        letters = (inputs["chars"] != 0)[where]  # [B, L, W]
        chars = cnn.convolve(spelled.flatten(0, 1), letters.flatten(0, 1))
        return cls(words, chars.view(*where.shape, -1))

    def joined(self, encoder: RecurrentEncoder) -> Tensor:
        """``[B, L, D + F]``, with the encoder's dropout: what its ``contextualise`` reads."""
        parts = [self.words]
        if self.chars is not None:
            parts.append(encoder.dropout(self.chars))
        joined: Tensor = encoder.input_dropout(torch.cat(parts, -1))
        return joined


@dataclass(frozen=True)
class Moves:
    """η of eq. 3 for word and character vectors; no gradient passes through it."""

    words: Tensor  # [B, L, D]
    chars: Tensor | None  # [B, L, W, C]

    @classmethod
    @torch.no_grad()
    def against(
        cls,
        cnn: CharCNN | None,
        inputs: Mapping[str, Tensor],
        features: Features,
        words: float | Tensor,
        chars: float | Tensor,
    ) -> Moves:
        """From the gradients a backward pass left in ``features``.

        ``words`` and ``chars`` are the ε of each, one for all sentences or ``[B]``.
        """
        spelled = None
        if cnn is not None and features.chars is not None and features.windows is not None:
            where = inputs["where"]
            asked = _grad(features.chars) * (features.chars > 0)  # ReLU
            letters = (inputs["chars"] != 0)[where]
            spelled = direction(letter_gradient(cnn, letters, features.windows[where], asked), chars)
        return cls(direction(_grad(features.words), words), spelled)


def _grad(value: Tensor) -> Tensor:
    assert value.grad is not None, "run the backward pass of the clean features first"
    return value.grad


def direction(gradient: Tensor, epsilon: float | Tensor) -> Tensor:
    """``ε g / ‖g‖₂`` with one norm a sentence, over all axes but the first; zero where the gradient is.

    ``epsilon`` may be ``[B]``, one for each sentence.

    Example:
        >>> direction(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), 10.0)
        tensor([[6., 8.],
                [0., 0.]])
    """
    tiny, shape = torch.finfo(gradient.dtype).tiny, (-1, *[1] * (gradient.dim() - 1))
    # By the largest entry first: squares of small gradients would underflow.
    gradient = gradient / gradient.abs().flatten(1).amax(1).clamp_min(tiny).view(shape)
    if isinstance(epsilon, Tensor):
        epsilon = epsilon.view(shape)
    return epsilon * gradient / gradient.flatten(1).norm(dim=1).clamp_min(tiny).view(shape)


@torch.no_grad()
def letter_gradient(cnn: CharCNN, letters: Tensor, windows: Tensor, gradient: Tensor) -> Tensor:
    """From the gradient of the CNN's output for each token to that of the token's character vectors.

    Args:
        letters: where a token has letters, ``[B, L, W]``.
        windows: the window that each output of a token comes from, ``[B, L, F]`` (see ``CharCNN.scan``).
        gradient: ``[B, L, F]``, zero for outputs that ReLU has cut off.

    Returns:
        ``[B, L, W, C]``, zero where a token has no letter.
    """
    filters = cnn.filters()  # [F, C, span]
    tokens, width, span = windows[..., 0].numel(), letters.shape[-1], filters.shape[-1]
    asked = gradient.new_zeros(tokens, width + span - 1, len(filters))  # [T, P, F]: one window a filter
    asked.scatter_(1, windows.flatten(0, 1)[:, None], gradient.flatten(0, 1)[:, None])
    columns = (asked @ filters.permute(0, 2, 1).flatten(1)).view(tokens, width + span - 1, span, -1)
    # Column j of the window that ends at p reads letter p - (span - 1) + j.
    found = torch.stack([columns[:, span - 1 - j :][:, :width, j] for j in range(span)]).sum(0)  # [T, W, C]
    return found.view(*letters.shape, -1) * letters[..., None]
