"""Adversarial perturbation of word and character embeddings (eq. 3): the fast gradient method (FGM).

The backward pass of the clean batch, which the weights need anyway, also yields the gradients of its inputs. So
adversarial training costs one more forward and one more backward pass. Every token has a perturbation of its own
although the clean pass runs the character CNN once per distinct word: :func:`letter_gradient` takes the gradient of
a token's CNN output down to its letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.backend.device import look_up
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import CharCNN


@dataclass(frozen=True)
class Features:
    """What the recurrent layer reads: the word vector and the character CNN's output of each token.

    Both constructors take ``vectors [U, D]`` of the batch's distinct words, which may come from several tables, and
    ``inputs`` as an encoder's ``collate`` makes them.
    """

    words: Tensor  # [B, L, D]
    chars: Tensor | None  # [B, L, F]
    windows: Tensor | None = None  # [U, F]: the window that each CNN output is the maximum of

    @classmethod
    def clean(
        cls, cnn: CharCNN | None, vectors: Tensor, inputs: Mapping[str, Tensor], keep_gradients: bool = True
    ) -> Features:
        """Features of a batch; a :class:`Perturbation` needs their gradients kept."""
        words = look_up(vectors, inputs["where"])
        if keep_gradients and not words.requires_grad:  # a frozen table
            words = words.detach().requires_grad_()
        chars = windows = None
        if cnn is not None:
            outputs, windows = cnn.scan(inputs["chars"])
            chars = look_up(outputs, inputs["where"])
        for value in (words, chars):
            if keep_gradients and value is not None and not value.is_leaf:
                value.retain_grad()
        return cls(words, chars, windows)

    @classmethod
    def perturbed(
        cls, cnn: CharCNN | None, vectors: Tensor, inputs: Mapping[str, Tensor], by: Perturbation
    ) -> Features:
        """``x_adv = x + η`` of the same batch; the embedding tables learn from it too."""
        where = inputs["where"]
        words = look_up(vectors, where) + by.words
        if cnn is None or by.chars is None:
            return cls(words, None)
        spelled = look_up(cnn.embedding(inputs["chars"]), where) + by.chars  # [B, L, W, C]
        letters = (inputs["chars"] != 0)[where]  # [B, L, W]
        chars = cnn.convolve(spelled.flatten(0, 1), letters.flatten(0, 1))
        return cls(words, chars.view(*where.shape, -1))

    def joined(self, encoder: RecurrentEncoder) -> Tensor:
        """``[B, L, D + F]`` with dropout: the input of the encoder's ``contextualise``."""
        parts = [self.words]
        if self.chars is not None:
            parts.append(encoder.dropout(self.chars))
        joined: Tensor = encoder.input_dropout(torch.cat(parts, -1))
        return joined


@dataclass(frozen=True)
class Perturbation:
    """η of eq. 3 for word and character embeddings; no gradient passes through it."""

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
    ) -> Perturbation:
        """Along the gradients that a backward pass left in ``features``.

        ``words`` and ``chars`` are the ε of each: one number, or one per sentence ``[B]``.
        """
        letters_eta = None
        if cnn is not None and features.chars is not None and features.windows is not None:
            where = inputs["where"]
            through_relu = _grad(features.chars) * (features.chars > 0)
            letters = (inputs["chars"] != 0)[where]
            letters_eta = fgm(letter_gradient(cnn, letters, features.windows[where], through_relu), chars)
        return cls(fgm(_grad(features.words), words), letters_eta)


def _grad(value: Tensor) -> Tensor:
    assert value.grad is not None, "run the backward pass of the clean features first"
    return value.grad


def fgm(gradient: Tensor, epsilon: float | Tensor) -> Tensor:
    """``ε g / ‖g‖₂`` with one norm per sentence, over all axes but the first; zero where the gradient is zero.

    ``epsilon`` may be ``[B]``, one per sentence.

    Example:
        >>> fgm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), 10.0)
        tensor([[6., 8.],
                [0., 0.]])
    """
    tiny, shape = torch.finfo(gradient.dtype).tiny, (-1, *[1] * (gradient.dim() - 1))
    # Divided by the largest entry first: squares of small gradients would underflow.
    gradient = gradient / gradient.abs().flatten(1).amax(1).clamp_min(tiny).view(shape)
    if isinstance(epsilon, Tensor):
        epsilon = epsilon.view(shape)
    return epsilon * gradient / gradient.flatten(1).norm(dim=1).clamp_min(tiny).view(shape)


@torch.no_grad()
def letter_gradient(cnn: CharCNN, letters: Tensor, windows: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of each token's character embeddings, from that of its CNN output.

    Args:
        letters: where a token has letters, ``[B, L, W]``.
        windows: the window that each output of a token comes from, ``[B, L, F]`` (see ``CharCNN.scan``).
        gradient: ``[B, L, F]``, zero for outputs that ReLU cuts off.

    Returns:
        ``[B, L, W, C]``, zero where a token has no letter.
    """
    filters = cnn.filters()  # [F, C, span]
    tokens, width, span = windows[..., 0].numel(), letters.shape[-1], filters.shape[-1]
    by_window = gradient.new_zeros(tokens, width + span - 1, len(filters))  # [T, P, F]: one window per filter
    by_window.scatter_(1, windows.flatten(0, 1)[:, None], gradient.flatten(0, 1)[:, None])
    columns = (by_window @ filters.permute(0, 2, 1).flatten(1)).view(tokens, width + span - 1, span, -1)
    # Column j of the window that ends at p reads letter p - (span - 1) + j.
    by_letter = torch.stack([columns[:, span - 1 - j :][:, :width, j] for j in range(span)]).sum(0)  # [T, W, C]
    return by_letter.view(*letters.shape, -1) * letters[..., None]
