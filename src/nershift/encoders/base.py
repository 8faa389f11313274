"""What every encoder (θ of the papers) offers: sentences in, one state a token out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from nershift.registry import Registry
from nershift.text.word_cache import WordCache

ENCODERS = Registry["type[Encoder]"]("encoder", "nershift.encoders", "nershift.encoders", "nershift.methods")
_Class = TypeVar("_Class", bound="type[Encoder]")


def register(name: str, *aliases: str) -> Callable[[_Class], _Class]:
    """Make an encoder known under ``name``, which is also what its saved models say."""

    def keep(cls: _Class) -> _Class:
        cls.kind = name
        ENCODERS.register(name, *aliases)(cls)
        return cls

    return keep


class Encoder(nn.Module, ABC):
    """Turns tokens into states ``[B, L, size]``.

    Work is cut in three so that the costly parts are done once: :meth:`prepare` (once a sentence, kept),
    :meth:`collate` (once a batch, on the CPU) and :meth:`forward` (on the device).
    """

    kind: ClassVar[str]
    size: int  # of a state

    @abstractmethod
    def prepare(self, tokens: Sequence[str]) -> Any:
        """Features of one sentence, to be kept and handed to :meth:`collate`."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """Tensors of a batch: the keyword arguments of :meth:`forward`, and ``mask [B, L]``."""

    @abstractmethod
    def forward(self, **inputs: Tensor) -> Tensor:
        """States ``[B, L, size]``; what stands under padding is zero."""

    @abstractmethod
    def word_parameters(self) -> list[nn.Parameter]:
        """The word (or sub-word) table, which may have a learning rate of its own."""

    @abstractmethod
    def learn_words(self, words: Iterable[str]) -> None:
        """Make words of new training text trainable (an encoder with a fixed table does nothing)."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON values from which ``rebuild`` of the same class makes an encoder of the same shape."""

    @classmethod
    @abstractmethod
    def rebuild(cls, description: Mapping[str, Any], folder: str) -> Encoder:
        """The inverse of :meth:`describe`; weights are loaded afterwards."""

    def save_files(self, folder: str) -> None:
        """Write what does not fit JSON or safetensors (a tokenizer's own files)."""

    def forget_beyond(self, limit: int) -> None:
        """Drop the cache of word forms beyond ``limit`` of them; features prepared before are void."""
        if len(self.word_cache) > limit:
            self.forget()

    word_cache: WordCache

    @abstractmethod
    def forget(self) -> None:
        """Start a new cache of word forms."""
