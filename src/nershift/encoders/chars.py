"""Character CNN, run once for each distinct word of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, embedding_bag, pad

from nershift.backend.autograd import double_backward_wanted
from nershift.config import CharsConfig


class CharCNN(nn.Module):
    """Convolutions of several widths over a word, max-pooled: ids ``[U, W]`` → ``[U, filters]``."""

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
        if double_backward_wanted():
            return self.convolve(self.embedding(chars), chars != 0)
        return self.scan(chars)[0]

    def scan(self, chars: Tensor) -> tuple[Tensor, Tensor]:
        """The convolutions by look-up: the product of each filter column with each letter is computed once.

        A batch has about a hundred letters but thousands of positions, so summing rows of a small table is less work
        than multiplying at every position.

        Returns:
            The output ``[U, F]``, and the last position of the window that each number comes from, ``[U, F]``.
            Position p of the padded word is letter p of the word itself.
        """
        filters = self.filters()
        span = filters.shape[-1]
        letters = pad(self.embedding.weight[1:], (0, 0, 1, 0))  # padding is zero and does not learn
        table = torch.einsum("cs,fsj->cjf", letters, filters).flatten(0, 1)  # [letters · span, F]
        windows = pad(chars, (span - 1, span - 1)).unfold(1, span, 1)  # [U, P, span]
        column = torch.arange(span, device=chars.device)
        y = embedding_bag((windows * span + column).flatten(0, 1), table, mode="sum")
        return self._largest(y.view(*windows.shape[:2], -1), chars != 0)

    def convolve(self, x: Tensor, mask: Tensor) -> Tensor:
        """As :meth:`forward`, from character vectors ``[U, W, size]``, which may have been perturbed."""
        filters = self.filters()
        y = conv1d((x * mask[..., None]).transpose(1, 2), filters, padding=filters.shape[-1] - 1)
        return self._largest(y.transpose(1, 2), mask)[0]

    def filters(self) -> Tensor:
        """Filters of all widths in one tensor, aligned at their last column: ``[F, size, span]``."""
        span = max(conv.kernel_size[0] for conv in self._convs())
        return torch.cat([pad(conv.weight, (span - conv.kernel_size[0], 0)) for conv in self._convs()])

    def _largest(self, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Max-pooling over the windows of a word, ``[U, P, F]`` → ``[U, F]``, with bias and ReLU.

        Windows that touch no letter are left out, so that padding to a longer word in the batch changes nothing.
        """
        extra = torch.cat([y.new_full((conv.out_channels,), conv.kernel_size[0] - 1) for conv in self._convs()])
        reach = mask.sum(1)[:, None] + extra  # [U, F]: windows that touch a letter
        at = torch.arange(y.shape[1], device=y.device)[:, None]  # [P, 1]
        best, window = y.masked_fill(at >= reach[:, None], float("-inf")).max(1)
        bias = torch.cat([conv.bias for conv in self._convs() if conv.bias is not None])
        return torch.relu(best + bias), window

    def _convs(self) -> list[nn.Conv1d]:
        return [conv for conv in self.convolutions if isinstance(conv, nn.Conv1d)]
