"""Tiny random encoders of several families, as folders that load like real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

_TEXT = [
    "Ada flew from Leeds to Porto .",
    "In Graz , Lindqvist met Moreau Tanaka .",
    "Nobody in Lima spoke in 1998 .",
    "pt Ruiz given 20mg zolpirex in Turku",
    "nebutol stopped , dr Novak informed",
]


def make_encoder_folder(
    kind: str, folder: Path, seed: int = 0, size: int = 16, layers: int = 3, text: Sequence[str] = _TEXT
) -> Path:
    """``kind``: bert, distilbert, electra, roberta, mpnet or gemma; sub-words are those of ``text``.

    The last is decoder-only and reads in both directions; ``gemma-causal`` is the same, but reads forwards.
    """
    import tokenizers
    import transformers

    torch.manual_seed(seed)
    special = ["<s>", "<pad>", "<unk>", "</s>", "<mask>"]
    # Written out, since a trained vocabulary differs from run to run.
    words = {word for line in text for word in line.split()}
    halves = {w[: (len(w) + 1) // 2] for w in words} | {f"##{w[(len(w) + 1) // 2 :]}" for w in words if len(w) > 1}
    letters = {c for w in words for c in w}
    pieces = sorted(halves | letters | {f"##{c}" for c in letters})
    vocabulary = {piece: i for i, piece in enumerate([*special, *pieces])}
    raw = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    decoder = kind.startswith("gemma")
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A" if decoder else "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 3)]
    )
    names = {"bos": "<s>", "cls": "<s>", "pad": "<pad>", "unk": "<unk>", "sep": "</s>", "mask": "<mask>"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, **{f"{name}_token": token for name, token in names.items()}
    )
    shared: dict[str, Any] = {
        "vocab_size": raw.get_vocab_size(),
        "max_position_embeddings": 64,
        "pad_token_id": 1,
    }
    if kind == "distilbert":
        config: Any = transformers.DistilBertConfig(dim=size, n_layers=layers, n_heads=2, hidden_dim=24, **shared)
    elif decoder:
        config = transformers.Gemma3TextConfig(
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            query_pre_attn_scalar=8,
            intermediate_size=24,
            sliding_window=8,
            sliding_window_pattern=2,
            bos_token_id=0,
            eos_token_id=3,
            use_bidirectional_attention=kind == "gemma",
            use_cache=False,
            **shared,
        )
    else:
        classes = {"bert": "Bert", "electra": "Electra", "roberta": "Roberta", "mpnet": "MPNet"}
        config = getattr(transformers, f"{classes[kind]}Config")(
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=24,
            **shared,
        )
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():  # initial weights are so small that every state looks alike
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    tokenizer.save_pretrained(folder)  # last: a wrong kind leaves no folder behind
    model.save_pretrained(folder)
    return folder
