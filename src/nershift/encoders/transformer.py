"""Any encoder of transformers: the first sub-word stands for a word, long sentences are read in windows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nershift.backend.device import look_up
from nershift.config import EncoderConfig
from nershift.encoders.attention import padding, positions_where_the_weights_are, steady_kernels
from nershift.encoders.base import ENCODERS, Cost, Encoder, register
from nershift.encoders.decoder_only import is_decoder_only, reads_both_ways, save_config
from nershift.encoders.words import CharCNN
from nershift.errors import ConfigError, MissingExtraError
from nershift.manifest import check_files
from nershift.text.subword_vectors import find_encoder, missing_folder
from nershift.text.subwords import Frame, Pieces, pad_windows
from nershift.text.word_cache import Vocabulary, WordCache

# Architectures whose positions start after the padding id, which costs that many.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer")
SAFE = {"use_safetensors": True, "trust_remote_code": False}  # neither a pickle nor code of a hub
log = logging.getLogger(__name__)
AND = "+"  # between the names of encoders that are read side by side


def load_pretrained(name: str, folder: str | None = None) -> tuple[Any, Any]:
    """Model and tokenizer of a local folder or hub name; with ``folder``, of its files with random weights."""
    if not folder and (missing := missing_folder(name)):
        raise missing
    name = find_encoder(name)
    if not folder and (Path(name) / "config.yaml").is_file():  # `nershift dapt` wrote it
        check_files(Path(name))
    try:
        from transformers import AutoConfig, AutoModel, AutoTokenizer
    except ImportError:
        raise MissingExtraError("transformers", "transformers", "a transformer encoder") from None
    from safetensors import SafetensorError

    def make_model(**options: Any) -> Any:
        if folder:
            return AutoModel.from_config(config, **options)
        model, info = AutoModel.from_pretrained(name, config=config, output_loading_info=True, **SAFE, **options)
        missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
        if missing:
            raise ValueError(f"its weights lack {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}")
        return model

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder or name, trust_remote_code=False)
            # Tokenizers that mark the space before a word must know that words arrive one at a time.
            tokenizer = AutoTokenizer.from_pretrained(
                folder or name, use_fast=True, add_prefix_space=True, trust_remote_code=False
            )
            try:
                model = make_model(add_pooling_layer=False)
            except TypeError:  # not every architecture has a pooling layer to omit
                model = make_model()
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        here = "" if Path(folder or name).is_dir() else ", which is no folder here"
        raise ConfigError(
            f"cannot load an encoder from '{folder or name}'{here}: {(str(error) or repr(error)).splitlines()[0]}",
            place="encoder.transformer.name",
            expected="a folder with config.json, model.safetensors and tokenizer files, or a hub name",
            fix="check what is in the folder" if not here else "check the name, or give the path of a folder",
        ) from None
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer of '{folder or name}' cannot say which word a sub-word comes from",
            place="encoder.transformer.name",
            expected="an encoder with a tokenizer.json",
        )
    return model.float(), tokenizer  # weights stored in half precision are trained in single


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silences the report of unused weights; missing ones raise an error of our own."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def special_around(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special sub-words that a tokenizer puts before and after a text."""
    read = tokenizer("a", return_special_tokens_mask=True)
    ids, special = read["input_ids"], read["special_tokens_mask"]
    first = special.index(0) if 0 in special else len(ids)
    last = len(special) - special[::-1].index(0) if 0 in special else len(ids)
    return tuple(ids[:first]), tuple(ids[last:])


@register("transformer")
class TransformerEncoder(Encoder):
    word_cache: WordCache
    pretrained = True
    cuda_graph_safe = True
    onnx_form = "transformer"

    def __init__(self, config: EncoderConfig, model: Any, tokenizer: Any, characters: Vocabulary) -> None:
        super().__init__()
        self.config, self.model, self.tokenizer, self.characters = config, model, tokenizer, characters
        self.chars = CharCNN(config.chars, len(characters)) if config.chars.use else None
        self.dropout = nn.Dropout(config.dropout)
        self.size = model.config.hidden_size + (self.chars.size if self.chars else 0)
        self.before, self.after = special_around(tokenizer)
        self.decoder_only = is_decoder_only(model)
        self.cuda_graph_safe = not self.decoder_only  # their masks are made on the CPU
        self.pad = tokenizer.pad_token_id or 0
        unknown = self.pad if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        self.room = self._room()
        self.frame = Frame(self.before, self.after, self.pad, unknown, self.room, config.transformer.overlap)
        positions_where_the_weights_are(model)
        self._freeze()
        self.forget()

    @classmethod
    def new(cls, config: EncoderConfig, words: Counter[str]) -> Encoder:
        name = config.transformer.name
        if not name:
            raise ConfigError(
                "no encoder was named",
                place="encoder.transformer.name",
                expected="a local folder or a hub name",
                fix="--set encoder.transformer.name=PATH",
            )
        if AND in name:
            return ENCODERS["concat"].new(config, words)
        made = cls(config, *load_pretrained(name), Vocabulary.letters(words))
        if made.decoder_only and not reads_both_ways(made.model, (made.frame.unknown, made.pad)):
            log.warning(
                "'%s' reads forwards only: what it says of a word knows nothing of the words after it. If the "
                "architecture can read in both directions, say so in its config.json and adapt it (`nershift dapt`)",
                name,
            )
        return made

    @classmethod
    def cost(cls, config: EncoderConfig) -> Cost:
        parts = config.transformer.name.count(AND) + 1
        return Cost(seconds=5e-3, gib=4.0, gib_per_sentence=0.25, parts=parts, sequential=False)

    def _room(self) -> int:
        """How many sub-words of words fit a window: as set, within what the model can read."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or self.config.transformer.max_subwords
        if self.model.config.model_type in _OFFSET_POSITIONS:
            positions -= self.pad + 1
        room = min(self.config.transformer.max_subwords, positions) - len(self.before) - len(self.after)
        if room < 1:
            raise ConfigError(
                f"a window of {self.config.transformer.max_subwords} sub-words has no room for a word",
                place="encoder.transformer.max_subwords",
                expected=f"more than {len(self.before) + len(self.after)}",
            )
        return room

    def _freeze(self) -> None:
        settings = self.config.transformer
        if settings.freeze_embeddings:
            self.model.get_input_embeddings().requires_grad_(False)
            if hasattr(self.model, "embeddings"):
                self.model.embeddings.requires_grad_(False)
        if settings.freeze_layers:
            self.layers()[: settings.freeze_layers].requires_grad_(False)

    def layers(self) -> nn.ModuleList:
        """The stack of transformer layers, bottom first."""
        depth = self.model.config.num_hidden_layers
        for module in self.model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == depth:
                return module
        raise ConfigError(
            f"{type(self.model).__name__} has no stack of {depth} layers",
            place="encoder.transformer.freeze_layers",
            fix="keep freeze_layers at 0 for this encoder",
        )

    def forget(self) -> None:
        self.word_cache = WordCache(Vocabulary(), self.characters, self.config.chars.max_length)

    def prepare(self, tokens: Sequence[str], masked: Collection[int] = (), whole: bool = True) -> Pieces:
        """Sub-words in windows. ``masked`` tokens are replaced by mask sub-words, ``whole`` or just their first one."""
        encoded = self.tokenizer(list(tokens), is_split_into_words=True, add_special_tokens=False, verbose=False)
        pieces = self.frame.by_word(encoded["input_ids"], encoded.word_ids(), len(tokens))
        hidden = self.tokenizer.mask_token_id
        for i in masked:
            pieces[i] = [hidden] * len(pieces[i]) if whole else [hidden, *pieces[i][1:]]
        ids, at = self.frame.lay_out(pieces)
        seen = [self.tokenizer.mask_token if i in masked else token for i, token in enumerate(tokens)]
        forms = np.array(self.word_cache.numbers(seen), dtype=np.int64) if self.chars is not None else np.empty(0)
        return Pieces(ids, at, forms)

    def collate(self, items: Sequence[Pieces]) -> dict[str, Tensor]:
        most = self.room + len(self.before) + len(self.after)
        padded = pad_windows(items, self.pad, self.rounding, most)
        out = {name: torch.from_numpy(array) for name, array in padded.items()}
        if self.chars is not None:
            forms, inverse = np.unique(np.concatenate([item.forms for item in items]), return_inverse=True)
            out["form"] = torch.zeros(out["mask"].shape, dtype=torch.long)
            out["form"][out["mask"]] = torch.from_numpy(inverse.reshape(-1))
            out["chars"] = self.word_cache.look_up(forms, self.rounding)[1]
        return out

    def forward(self, **inputs: Tensor) -> Tensor:
        with steady_kernels(inputs["input_ids"]):
            hidden = self.model(
                input_ids=inputs["input_ids"], attention_mask=padding(self.model, inputs["attention_mask"])
            ).last_hidden_state  # [N, S, H]
        states = look_up(hidden.flatten(0, 1), inputs["where"])  # [B, L, H]
        if self.chars is not None:
            states = torch.cat([states, look_up(self.chars(inputs["chars"]), inputs["form"])], -1)
        return self.dropout(states) * inputs["mask"][..., None]

    @classmethod
    def frozen_words(cls, config: EncoderConfig) -> str:
        return "transformer.freeze_embeddings=false" if config.transformer.freeze_embeddings else ""

    def word_parameters(self) -> list[nn.Parameter]:
        return list(self.model.get_input_embeddings().parameters())

    def learn_words(self, words: Iterable[str]) -> None:
        if self.chars is not None:
            self.characters.extend(sorted({c for w in words for c in w}))
            self.chars.grow(len(self.characters))
            self.forget()

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"characters": self.characters.words[2:]}

    def save_files(self, folder: str) -> None:
        save_config(self.model.config, Path(folder, "encoder"))
        self.tokenizer.save_pretrained(Path(folder, "encoder"))

    @classmethod
    def rebuild(cls, config: EncoderConfig, description: Mapping[str, Any], folder: str) -> TransformerEncoder:
        model, tokenizer = load_pretrained(config.transformer.name, str(Path(folder, "encoder")))
        return cls(config, model, tokenizer, Vocabulary(description["characters"]))
