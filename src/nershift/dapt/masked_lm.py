"""A transformer with its masked-language-model head, from any checkpoint with a mask token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from nershift.config import CharsConfig, EncoderConfig, TransformerConfig
from nershift.encoders.transformer import SAFE, TransformerEncoder, load_pretrained, quiet_transformers
from nershift.errors import ConfigError
from nershift.text.subword_vectors import find_encoder
from nershift.text.word_cache import Vocabulary


class MaskedLM:
    """The encoder, and ``head``: the parameters of the head beyond the sub-word table that both share.

    Args:
        name: a folder, a name in the folder of encoders, or a hub name.
        max_subwords: per row, special ones included.
    """

    def __init__(self, name: str, max_subwords: int) -> None:
        _, tokenizer = load_pretrained(name)  # first: it explains what is wrong with a checkpoint
        if tokenizer.mask_token_id is None:
            raise ConfigError(
                f"the tokenizer of '{name}' has no mask token", place="--encoder", expected="a masked language model"
            )
        self.model, self.head_is_new = self._load(name)
        config = EncoderConfig(
            kind="transformer",
            transformer=TransformerConfig(name=name, max_subwords=max_subwords),
            chars=CharsConfig(use=False),
            dropout=0.0,
        )
        self.encoder = TransformerEncoder(config, self.model.base_model, tokenizer, Vocabulary())
        shared = {id(p) for p in self.encoder.parameters()}
        own = [p for p in self.model.parameters() if id(p) not in shared]
        # One order in all families, sub-word biases first: gradient norms are summed in it.
        self.head = nn.ParameterList(sorted(own, key=lambda p: len(p) != self.model.config.vocab_size))

    def _load(self, name: str) -> tuple[Any, bool]:
        """The checkpoint as a masked language model, and whether its head is new."""
        from transformers import AutoModelForMaskedLM

        try:
            with quiet_transformers():
                model, info = AutoModelForMaskedLM.from_pretrained(find_encoder(name), output_loading_info=True, **SAFE)
        except ValueError:
            raise ConfigError(
                f"transformers has no masked language model for the architecture of '{name}'",
                place="--encoder",
                expected="an architecture such as BERT, RoBERTa, DistilBERT, MPNet, ELECTRA, DeBERTa or ModernBERT",
            ) from None
        model = model.float()
        model.config.tie_word_embeddings = True
        model.tie_weights()
        prefix = f"{model.base_model_prefix}."
        return model, any(not key.startswith(prefix) for key in info["missing_keys"])

    def logits(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Scores of all sub-words ``[N, V]`` at ``positions [N]`` of the flattened rows ``[R, S]``.

        A hook passes the states of these positions alone to the head, which is most of the work.
        """

        def select(module: nn.Module, inputs: Any, output: Any) -> Any:
            output.last_hidden_state = output.last_hidden_state.flatten(0, 1)[positions][None]  # [1, N, H]
            return output

        with self.model.base_model.register_forward_hook(select):
            logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits[0]
        return logits

    def save(self, folder: Path) -> None:
        """Write a folder that ``encoder.transformer.name`` accepts."""
        self.model.save_pretrained(folder)
        self.encoder.tokenizer.save_pretrained(folder)
