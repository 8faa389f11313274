"""The transformer encoder against transformers itself, on tiny random models with tokenizers made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders import attention
from nershift.encoders.base import make_encoder
from nershift.encoders.transformer import TransformerEncoder, load_pretrained
from nershift.errors import CheckpointError, ConfigError
from nershift.heads.base import make_head
from nershift.methods.base import TARGET
from nershift.model import TaggingModel
from nershift.model_store import load_model, save_model
from tiny_encoders import make_encoder_folder

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

MakeCorpus = Callable[..., Corpus]
KINDS = ("bert", "distilbert", "roberta", "mpnet")
ROWS = [
    ["Ada", "flew", "from", "Leeds", "to", "Porto", "."],
    ["Okafor"],
    ["In", "Graz", ",", "unbelievably", "\u200b", "Lindqvist", "met", "\x07", "Moreau", "Tanaka", "."],
]
_TEXT = [" ".join(row) for row in ROWS] + ["Nobody in Leeds spoke in 1998 .", "pt Ruiz given 20mg zolpirex"]


def _word_pieces(special: list[str]) -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=special[2]))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(_TEXT, tokenizers.trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    return made


def _byte_pairs(special: list[str]) -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=special[2]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator(_TEXT, trainer)
    return made


def _make_folder(kind: str, folder: Path, positions: int = 64) -> None:
    torch.manual_seed(0)
    bert_like = kind in ("bert", "distilbert")
    special = (
        ["[PAD]", "[CLS]", "[UNK]", "[SEP]", "[MASK]"] if bert_like else ["<s>", "<pad>", "<unk>", "</s>", "<mask>"]
    )
    raw = _byte_pairs(special) if kind == "roberta" else _word_pieces(special)
    first, last = ("[CLS]", "[SEP]") if bert_like else ("<s>", "</s>")
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(t, raw.token_to_id(t)) for t in (first, last)]
    )
    pad = special[0] if bert_like else special[1]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=pad, unk_token=special[2], cls_token=first, sep_token=last
    )
    tokenizer.save_pretrained(folder)
    size = {
        "vocab_size": raw.get_vocab_size(),
        "max_position_embeddings": positions,
        "pad_token_id": raw.token_to_id(pad),
    }
    wide = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
    if kind == "distilbert":
        config: Any = transformers.DistilBertConfig(dim=16, n_layers=3, n_heads=2, hidden_dim=24, **size)
    else:
        made = {"bert": "BertConfig", "roberta": "RobertaConfig", "mpnet": "MPNetConfig"}[kind]
        config = getattr(transformers, made)(**wide, **size)
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():  # initial weights are so small that every state looks alike
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for kind, folder in out.items():
        _make_folder(kind, folder)
    return out


def _encoder(folder: Path, chars: bool = False, **transformer: Any) -> TransformerEncoder:
    torch.manual_seed(1)
    values = {
        "kind": "transformer",
        "transformer": {"name": str(folder), **transformer},
        "chars": {"use": chars, "size": 4, "filters": 6, "widths": [2, 3], "max_length": 8},
    }
    encoder = make_encoder(build(EncoderConfig, values), [Sentence.of(row) for row in ROWS])
    assert isinstance(encoder, TransformerEncoder)
    return encoder.eval()


def _states(encoder: TransformerEncoder, rows: list[list[str]]) -> torch.Tensor:
    with torch.no_grad():
        return encoder(**encoder.collate([encoder.prepare(row) for row in rows]))


def _by_hand(folder: Path, row: list[str]) -> torch.Tensor:
    """Tokenize each word on its own, run the model over the sentence, read each word's first sub-word."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).float().eval()
    ids, first = [tokenizer.cls_token_id], []
    for word in row:
        first.append(len(ids))
        ids += tokenizer(word, add_special_tokens=False)["input_ids"] or [tokenizer.unk_token_id]
    ids.append(tokenizer.sep_token_id)
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0, first]


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_those_of_first_sub_words(folders: dict[str, Path], kind: str) -> None:
    encoder = _encoder(folders[kind])
    together = _states(encoder, ROWS)
    assert together.shape == (3, 11, 16)
    for row, states in zip(ROWS, together, strict=True):
        torch.testing.assert_close(states[: len(row)], _by_hand(folders[kind], row), atol=1e-5, rtol=0)
        assert not states[len(row) :].any()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_in_a_batch_changes_nothing(folders: dict[str, Path], kind: str) -> None:
    encoder = _encoder(folders[kind], chars=True, max_subwords=20, overlap=4)
    together = _states(encoder, ROWS)
    for row, states in zip(ROWS, together, strict=True):
        torch.testing.assert_close(states[: len(row)], _states(encoder, [row])[0], atol=1e-5, rtol=0)


def test_words_without_sub_words_are_shown_as_unknown(folders: dict[str, Path]) -> None:
    encoder = _encoder(folders["bert"])
    tokenizer = encoder.tokenizer
    assert tokenizer("\x07", add_special_tokens=False)["input_ids"] == []
    pieces = encoder.prepare(["Ada", "\x07", "", "Leeds"])
    assert len(pieces.at) == 4
    assert [pieces.ids[0][p] for _, p in pieces.at[1:3]] == [tokenizer.unk_token_id] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_long_sentences_go_through_windows(folders: dict[str, Path], kind: str) -> None:
    encoder = _encoder(folders[kind], max_subwords=16, overlap=6)
    row = ROWS[2] * 4
    pieces = encoder.prepare(row)
    assert len(pieces.ids) > 3
    assert all(len(ids) <= 16 for ids in pieces.ids)
    assert len(pieces.at) == len(row)
    states = _states(encoder, [row])[0]
    # Every token is read at its first sub-word, in a window that the model sees on its own.
    for (n, p), state in zip(pieces.at, states, strict=True):
        with torch.no_grad():
            window = encoder.model(input_ids=torch.tensor([pieces.ids[n]])).last_hidden_state[0]
        torch.testing.assert_close(state, window[p], atol=1e-5, rtol=0)
    words = encoder.tokenizer(row, is_split_into_words=True, add_special_tokens=False)
    firsts = dict(reversed(list(zip(words.word_ids(), words["input_ids"], strict=True))))
    for i, (n, p) in enumerate(pieces.at):
        assert pieces.ids[n][p] == firsts.get(i, encoder.tokenizer.unk_token_id)


def test_room_enough_means_no_windows(folders: dict[str, Path]) -> None:
    tight, wide = (
        _encoder(folders["bert"], max_subwords=40, overlap=8),
        _encoder(folders["bert"], max_subwords=64),
    )
    row = ROWS[0] * 2
    assert len(tight.prepare(row).ids) == 1
    torch.testing.assert_close(_states(tight, [row]), _states(wide, [row]))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_never_exceed_what_the_model_can_take(folders: dict[str, Path], kind: str) -> None:
    encoder = _encoder(folders[kind], max_subwords=512)
    row = ROWS[2] * 20
    assert max(len(ids) for ids in encoder.prepare(row).ids) == (62 if kind in ("roberta", "mpnet") else 64)
    assert _states(encoder, [row]).isfinite().all()


def test_a_word_longer_than_the_window(folders: dict[str, Path]) -> None:
    encoder = _encoder(folders["bert"], max_subwords=8, overlap=2)
    row = ["Ada", "unbelievably" * 5, "Leeds"]
    pieces = encoder.prepare(row)
    assert all(len(ids) <= 8 for ids in pieces.ids)
    assert _states(encoder, [row]).shape == (1, 3, 16)


def test_no_room_for_a_word_is_an_error(folders: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="no room for a word"):
        _encoder(folders["bert"], max_subwords=2)


def test_characters_stand_beside_the_states(folders: dict[str, Path]) -> None:
    with_chars, plain = _encoder(folders["bert"], chars=True), _encoder(folders["bert"])
    assert with_chars.size == plain.size + 6
    states = _states(with_chars, ROWS)
    torch.testing.assert_close(states[..., :16], _states(plain, ROWS))
    assert with_chars.chars is not None
    numbers = with_chars.prepare(["Leeds"]).forms
    alone = with_chars.chars(with_chars.word_cache.look_up(numbers)[1])[0]
    torch.testing.assert_close(states[0, 3, 16:], alone.detach(), atol=1e-6, rtol=0)
    with_chars.learn_words(["Ωmega"])
    torch.testing.assert_close(_states(with_chars, ROWS), states)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [0, 2])
def test_freezing(folders: dict[str, Path], kind: str, layers: int) -> None:
    encoder = _encoder(folders[kind], freeze_layers=layers, freeze_embeddings=layers > 0)
    encoder(**encoder.collate([encoder.prepare(row) for row in ROWS])).sum().backward()
    learns = [any(p.grad is not None for p in layer.parameters()) for layer in encoder.layers()]
    assert learns == [i >= layers for i in range(3)]
    assert all((p.grad is None) == (layers > 0) for p in encoder.word_parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(folders: dict[str, Path], kind: str, tmp_path: Path) -> None:
    encoder = _encoder(folders[kind], chars=True, max_subwords=16, overlap=4)
    space = Corpus("c", {"train": (Sentence.of(["x"], [(0, 1, "PER")]),)}).label_space()
    model = TaggingModel(encoder, {TARGET: make_head("crf", space, encoder.size)})
    save_model(tmp_path, model, {})
    again, _ = load_model(tmp_path)
    assert isinstance(again.encoder, TransformerEncoder)
    torch.testing.assert_close(_states(again.encoder, ROWS), _states(encoder, ROWS), atol=0, rtol=0)
    rows = [Sentence.of(row) for row in ROWS]
    assert again.predict(TARGET, rows) == model.predict(TARGET, rows)


def test_half_precision_weights_are_trained_in_single(folders: dict[str, Path], tmp_path: Path) -> None:
    model = transformers.AutoModel.from_pretrained(folders["bert"]).half()
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    encoder = _encoder(tmp_path)
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    torch.testing.assert_close(_states(encoder, ROWS), _states(_encoder(folders["bert"]), ROWS), atol=2e-2, rtol=0)


def test_it_learns(folders: dict[str, Path], make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    from nershift.run import transfer

    tiny["encoder"] |= {"kind": "transformer", "transformer": {"name": str(folders["bert"])}}
    tiny["train"] |= {"epochs": 8, "optimizer": "adamw", "schedule": "linear", "warmup": 0.1, "lr": 0.01}
    run = transfer("target_only", make_corpus("news", train=60), out=tmp_path / "run", config=tiny, quiet=True)
    assert run.f1 > 0.6
    assert run.tagger().types == ("person", "place")


def test_broken_encoder_folders(folders: dict[str, Path], tmp_path: Path) -> None:
    def fails(found: str) -> None:
        with pytest.raises(ConfigError, match=found) as error:
            _encoder(tmp_path)
        assert error.value.place == "encoder.transformer.name"

    fails("cannot load an encoder")
    config = json.loads((folders["bert"] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    transformers.AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    fails("cannot load an encoder")  # no weights
    weights = (folders["bert"] / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    fails("cannot load an encoder")
    with pytest.raises(ConfigError, match="no encoder was named"):
        make_encoder(build(EncoderConfig, {"kind": "transformer"}), [Sentence.of(["x"])])


def test_an_encoder_whose_weights_lack_some_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_encoder_folder("bert", tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in weights.items() if "layer.1." not in key}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"its weights lack encoder\.layer\.1"):
        load_pretrained(str(folder))


def test_relative_positions_are_counted_where_the_weights_are(folders: dict[str, Path]) -> None:
    """Some versions of transformers hand in positions on the CPU wherever the weights are."""
    encoder = _encoder(folders["mpnet"])
    inner = encoder.model.encoder
    at = torch.arange(7)
    expected = type(inner).relative_position_bucket(at[None] - at[:, None], num_buckets=32)
    assert torch.equal(inner.relative_position_bucket(at[None] - at[:, None], num_buckets=32), expected)
    moved = inner.to("meta").relative_position_bucket(at[None] - at[:, None], num_buckets=32)
    assert (moved.device.type, moved.shape) == ("meta", expected.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_step_sees_the_same_padding(
    folders: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = _encoder(folders[kind])
    encoder.model.set_attn_implementation("eager")
    rows = [["cats", "sat"], ["a", "longer", "row", "of", "words"]]
    expected = _states(encoder, rows)
    told = []
    monkeypatch.setattr(attention, "_recording", lambda: told.append(kind) or True)
    torch.testing.assert_close(_states(encoder, rows), expected)
    assert told


class _Trap:
    """Unpickling it writes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def test_pickled_weights_are_never_opened(folders: dict[str, Path], tmp_path: Path) -> None:
    """Neither where they lie alone, nor beside weights that can be read."""
    import pickle

    trap = tmp_path / "sprung"
    for name in ("pytorch_model.bin", "model.pt"):
        folder = tmp_path / name.partition(".")[0]
        transformers.AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(folder)
        (folder / "config.json").write_bytes((folders["bert"] / "config.json").read_bytes())
        (folder / name).write_bytes(pickle.dumps(_Trap(str(trap))))
        torch.save({"x": _Trap(str(trap))}, folder / "pytorch_model.bin")
        with pytest.raises(ConfigError, match="cannot load an encoder"):
            _encoder(folder)
        (folder / "model.safetensors").write_bytes((folders["bert"] / "model.safetensors").read_bytes())
        _encoder(folder)
        assert not trap.exists()


def test_the_state_dict_of_a_good_pickle_is_not_read_either(folders: dict[str, Path], tmp_path: Path) -> None:
    """A pickle of tensors alone would be harmless; which pickles are is not for us to find out."""
    model = transformers.AutoModel.from_pretrained(folders["bert"])
    transformers.AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="cannot load an encoder"):
        _encoder(tmp_path)


def test_code_that_comes_with_an_encoder_is_not_run(folders: dict[str, Path], tmp_path: Path) -> None:
    transformers.AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    config = json.loads((folders["bert"] / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.MyConfig", "AutoModel": "mine.MyModel"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    with pytest.raises(ConfigError, match="cannot load an encoder"):
        _encoder(tmp_path)
    assert not (tmp_path / "sprung").exists()


@pytest.fixture
def saved(folders: dict[str, Path], tmp_path: Path) -> Path:
    encoder = _encoder(folders["bert"])
    space = Corpus("c", {"train": (Sentence.of(["x"], [(0, 1, "PER")]),)}).label_space()
    save_model(tmp_path, TaggingModel(encoder, {TARGET: make_head("crf", space, encoder.size)}), {})
    return tmp_path


def test_the_files_of_an_encoder_are_checked(saved: Path) -> None:
    files = [path for path in saved.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert {"model.json", "model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in files}
    for path in files:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + b"\x00")
        with pytest.raises(CheckpointError, match=f"{path.name}: (is not as it was written|not readable JSON)"):
            load_model(saved)
        path.write_bytes(data)
    load_model(saved)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 1 << 20),
        ("intermediate_size", 1 << 40),
        ("vocab_size", 1 << 45),
        ("num_hidden_layers", 10**7),
        ("max_position_embeddings", 1 << 40),
    ],
)
def test_an_encoder_larger_than_its_weights_is_not_made(saved: Path, name: str, value: int) -> None:
    import resource
    import time

    config = json.loads((saved / "encoder" / "config.json").read_text())
    (saved / "encoder" / "config.json").write_text(json.dumps(config | {name: value}))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(CheckpointError):
        load_model(saved, verify=False)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10
    assert time.process_time() - began < 30
