"""Character CNN, run once for each distinct word of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nershift.config import CharsConfig


class CharCNN(nn.Module):
    """Convolutions of several widths over a word's characters, max-pooled: ``[U, W]`` ids → ``[U, filters]``."""

    def __init__(self, config: CharsConfig, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(self._draw(characters, config.size), freeze=False, padding_idx=0)
        with torch.no_grad():
            self.embedding.weight[0] = 0
        share, rest = divmod(config.filters, len(config.widths))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.size, share + (i < rest), width, padding=width - 1)
            for i, width in enumerate(config.widths[: config.filters])
        )
        self.size = config.filters

    @staticmethod
    def _draw(rows: int, size: int) -> Tensor:
        bound = (3 / size) ** 0.5
        return torch.empty(rows, size).uniform_(-bound, bound)

    @torch.no_grad()
    def grow(self, characters: int) -> None:
        """Add rows for letters of new text."""
        weight = self.embedding.weight
        new = self._draw(characters - len(weight), weight.shape[1]).to(weight.device)
        if len(new):
            self.embedding = nn.Embedding.from_pretrained(torch.cat([weight, new]), freeze=False, padding_idx=0)

    def forward(self, chars: Tensor) -> Tensor:
        return self.convolve(self.embedding(chars), chars != 0)

    def convolve(self, x: Tensor, mask: Tensor) -> Tensor:
        """From character vectors ``[U, W, size]``, which an adversary may have perturbed."""
        x = (x * mask[..., None]).transpose(1, 2)  # [U, size, W]
        # Beyond the word only zeros are seen, so that padding to a longer word in the batch changes nothing:
        # windows that touch no character yield the bias alone and are masked out of the maximum.
        length = mask.sum(1)  # [U]
        pooled = []
        for conv in self.convolutions:
            y = conv(x)  # [U, f, W + width - 1]
            at = torch.arange(y.shape[-1], device=y.device)
            width = conv.kernel_size[0]
            y = y.masked_fill((at >= (length + width - 1)[:, None])[:, None], float("-inf"))
            pooled.append(torch.relu(y.amax(-1)))
        return torch.cat(pooled, -1)
