"""Corpora small enough to train on in a second, and the folder of real ones where there is one."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence

MakeCorpus = Callable[..., Corpus]

_NAMES = ["Ada", "Okafor", "Lindqvist", "Moreau", "Tanaka", "Ruiz", "Novak", "Zhou"]
_PLACES = ["Leeds", "Porto", "Graz", "Osaka", "Lima", "Turku"]
_DRUGS = ["zolpirex", "amitrane", "corvadil", "nebutol"]
_FRAMES = {
    "news": [
        "{person} flew from {place} to {place} .",
        "In {place} , {person} met {person} {person} .",
        "Nobody in {place} spoke in 1998 .",
    ],
    "clinic": [
        "pt {person} given 20mg {drug} in {place}",
        "{drug} stopped , dr {person} informed",
        "no complaints since 12/3",
    ],
}
_WORDS = {"person": _NAMES, "place": _PLACES, "drug": _DRUGS}


def _sentence(domain: str, rng: random.Random) -> Sentence:
    tokens: list[str] = []
    spans: list[tuple[int, int, str]] = []
    for word in rng.choice(_FRAMES[domain]).split():
        kind = word.strip("{}")
        if kind == word:
            tokens.append(word)
            continue
        if spans and spans[-1][1] == len(tokens) and spans[-1][2] == kind:  # two in a row are one name
            spans[-1] = (spans[-1][0], len(tokens) + 1, kind)
        else:
            spans.append((len(tokens), len(tokens) + 1, kind))
        tokens.append(rng.choice(_WORDS[kind]))
    return Sentence.of(tokens, spans)


@pytest.fixture(scope="session")
def make_corpus() -> MakeCorpus:
    """``make_corpus("news", train=40, dev=10, test=10, seed=0)``: a seeded toy corpus."""

    def make(domain: str = "news", train: int = 40, dev: int = 10, test: int = 10, seed: int = 0) -> Corpus:
        rng = random.Random(f"{domain}/{seed}")
        sizes = {"train": train, "dev": dev, "test": test}
        splits = {name: tuple(_sentence(domain, rng) for _ in range(n)) for name, n in sizes.items() if n}
        return Corpus(domain, splits, domain=domain, language="en")

    return make


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Settings of a model that trains in a moment."""
    return {
        "device": "cpu",
        "preset": "paper",
        "encoder": {
            "words": {"size": 12},
            "chars": {"size": 6, "filters": 8, "widths": [2, 3], "max_length": 12},
            "recurrent": {"size": 10},
            "dropout": 0.1,
        },
        "train": {"epochs": 2, "batch_size": 8, "lr": 0.02},
        "pretrain": {"epochs": 1, "batch_size": 8, "lr": 0.02},
    }


@pytest.fixture
def encoder_folder(tmp_path: Path) -> Callable[[str], Path]:
    """``encoder_folder("name")``: a folder with the sub-word table and the tokenizer of an encoder."""

    def make(name: str) -> Path:
        import torch
        from safetensors.torch import save_file
        from tokenizers import Tokenizer, models, pre_tokenizers

        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        pieces = ["[PAD]", "[UNK]", "gob", "##ierno", "Madrid", "##s", "casa", "1", "##9", "##8"]
        table = torch.randn(len(pieces), 6, generator=torch.Generator().manual_seed(0)).half()
        tensors = {f"embeddings.{kind}_embeddings.weight": table.clone() for kind in ("word", "position")}
        save_file(tensors, folder / "model.safetensors")
        made = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        made.save(str(folder / "tokenizer.json"))
        return folder

    return make


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public corpora, or a skip."""
    given = os.environ.get("NERSHIFT_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder of corpora: set NERSHIFT_DATA")
    return folder


@pytest.fixture
def triton_device() -> str:
    """The GPU, or the CPU with Triton's interpreter."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("no GPU; set TRITON_INTERPRET=1 to run the kernel in Triton's interpreter")
    return "cpu"
