"""What every encoder (θ of the papers) offers: sentences in, one state per token out. A new encoder is one file.

It registers a name, which ``encoder.kind`` then accepts::

    @register("mine")
    class Mine(Encoder): ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from nershift.config import EncoderConfig, build, to_dict
from nershift.data.spans import Sentence
from nershift.registry import Registry
from nershift.text.word_cache import Rounding, WordCache

ENCODERS = Registry["type[Encoder]"](
    "encoder", "nershift.encoders", "nershift.encoders", "nershift.methods", attribute="kind"
)
register = ENCODERS.register


@dataclass(frozen=True)
class Cost:
    """A rough price of training an encoder, for those who plan runs."""

    seconds: float = 7e-4  # per batch of 32 sentences, forward and backward, on an H200 shared by sixteen runs
    gib: float = 2.0  # of GPU memory, for weights and moments
    gib_per_sentence: float = 0.08  # of a batch
    parts: int = 1  # encoders side by side, each at this price
    sequential: bool = True  # one token after the other: larger batches are as fast, more CPU threads are no faster


class Encoder(nn.Module, ABC):
    """Turns tokens into states ``[B, L, size]``.

    The work is split in three, so that each part is done as rarely as possible: :meth:`prepare` (once per sentence,
    kept), :meth:`collate` (once per batch, on the CPU) and :meth:`forward` (on the device).
    """

    kind: ClassVar[str]
    config: EncoderConfig  # the settings it was made with
    size: int  # of a state

    # What it can do. A subclass with a forward of its own has to say again that it can be recorded.
    pretrained: ClassVar[bool] = False  # its weights come from pre-training on text: small rates, few steps
    onnx_form: ClassVar[str] = ""  # the graph of :mod:`nershift.tagger.onnx` that computes the same
    cuda_graph_batches: ClassVar[int] = 1  # how many batches a recorded step may read
    cuda_graph_precisions: ClassVar[tuple[str, ...]] = ("fp32", "bf16")
    rounding: Rounding | None = None  # shapes that :meth:`collate` pads to; set while steps are recorded
    word_cache: WordCache | None = None  # word forms met so far, where it keeps any

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "forward" in vars(cls) and "cuda_graph_safe" not in vars(cls):
            cls.cuda_graph_safe = False  # type: ignore[method-assign, assignment]

    @property
    def cuda_graph_safe(self) -> bool:
        """Whether :meth:`forward` only depends on its inputs' shapes and never reads a value back from the GPU."""
        return False

    @property
    def exportable(self) -> bool:
        """Whether it can run without torch (:mod:`nershift.tagger.onnx`)."""
        return not self.not_exportable

    @property
    def not_exportable(self) -> str:
        """Why it is not exportable; empty if it is."""
        return "" if self.onnx_form else f"its encoder is a {type(self).__name__}"

    @classmethod
    def cost(cls, config: EncoderConfig) -> Cost:
        return Cost()

    # -- making and saving -------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def new(cls, config: EncoderConfig, words: Counter[str]) -> Encoder:
        """A new encoder for training text with these words; ``config.options`` are its own settings, if it has any."""

    def describe(self) -> dict[str, Any]:
        """JSON values from which :meth:`rebuild` makes an encoder of the same shape; extend it where needed."""
        return {"kind": self.kind, "config": to_dict(self.config)}

    def save_files(self, folder: str) -> None:
        """Write what does not fit JSON or safetensors (a tokenizer's own files)."""

    @classmethod
    @abstractmethod
    def rebuild(cls, config: EncoderConfig, description: Mapping[str, Any], folder: str) -> Encoder:
        """The inverse of :meth:`describe` and :meth:`save_files`; weights are loaded afterwards."""

    # -- from tokens to states ---------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, tokens: Sequence[str]) -> Any:
        """Features of one sentence, to be kept and handed to :meth:`collate`."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """Tensors of a batch: the keyword arguments of :meth:`forward`, and ``mask [B, L]``."""

    @abstractmethod
    def forward(self, **inputs: Tensor) -> Tensor:
        """States ``[B, L, size]``; zero under padding."""

    def pad_alike(self, batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
        """Inputs of the batches of one recorded step, padded to one shape, with everything on the device."""
        return [dict(inputs) for inputs in batches]

    # -- words -------------------------------------------------------------------------------------------

    @classmethod
    def frozen_words(cls, config: EncoderConfig) -> str:
        """If these settings freeze the word vectors, the setting that would let them learn; else empty."""
        return ""

    def word_parameters(self) -> list[nn.Parameter]:
        """The word (or sub-word) table, which may have a learning rate of its own."""
        return []

    def learn_words(self, words: Iterable[str]) -> None:
        """Make words of new training text trainable."""

    def forget(self) -> None:
        """Start a new cache of word forms; features prepared before are void."""

    def forget_beyond(self, limit: int) -> None:
        """:meth:`forget` once the cached word forms take more than ``limit`` bytes."""
        if self.word_cache is not None and self.word_cache.bytes > limit:
            self.forget()


def make_encoder(config: EncoderConfig, sentences: Iterable[Sentence]) -> Encoder:
    """A new encoder whose words and letters are those of ``sentences``; seed torch before."""
    return ENCODERS[config.kind].new(config, Counter(token for s in sentences for token in s.tokens))


def rebuild_encoder(description: Mapping[str, Any], folder: str) -> Encoder:
    """The encoder that :meth:`Encoder.describe` described, with random weights."""
    config = build(EncoderConfig, description["config"], f"{folder}/model.json", saved=True)
    return ENCODERS[description["kind"]].rebuild(config, description, folder)
