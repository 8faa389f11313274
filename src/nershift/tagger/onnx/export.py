"""Export a tagger to ONNX, and verify the result against PyTorch before it is published."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nershift.data.spans import Sentence, by_length
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.transformer import TransformerEncoder
from nershift.errors import CheckpointError, MissingExtraError, SetupError
from nershift.heads.tags import TagHead
from nershift.manifest import write_manifest
from nershift.storage import replacing, write_text
from nershift.tagger.onnx.readers import MODEL, TOKENIZER, WORDS
from nershift.tagger.onnx.tagger import DESCRIPTION, FORMAT, OnnxTagger
from nershift.tagger.tagger import Tagger

SCORES = 1e-3  # how far scores may lie from torch's, as a share of the largest (of 1, if that is more)
TAGS = 0.02  # the share of tags that rounding weights to int8 may change
_BATCH = 32
_ODD = ("Ωμέγα", "x" * 70, "\u200b", "1998", "#", "東", "京", "e\u0301tude")


@dataclass(frozen=True)
class Check:
    """The result of the comparison with torch: differences of scores, and the share of changed tags."""

    sentences: int
    tokens: int
    largest_difference: float
    largest_score: float
    tags_changed: float  # share

    def excess(self, int8: bool, tolerance: float | None) -> str:
        """What is beyond the tolerance, in words; empty if nothing is."""
        if int8:
            limit = TAGS if tolerance is None else tolerance
            text = f"{self.tags_changed:.1%} of {self.tokens} tags change, more than {limit:.1%}"
            return "" if self.tags_changed <= limit else text
        limit = (SCORES if tolerance is None else tolerance) * max(1.0, self.largest_score)
        text = f"scores differ from torch's by {self.largest_difference:.2g}, more than {limit:.2g}"
        return "" if self.largest_difference <= limit else text


def export_onnx(
    tagger: Tagger,
    out: str | Path,
    *,
    int8: bool = False,
    tolerance: float | None = None,
    sentences: Sequence[Sentence] | None = None,
) -> Check:
    """Write a folder for :class:`~nershift.tagger.onnx.tagger.OnnxTagger`.

    Args:
        tagger: with a recurrent or transformer encoder and a CRF, softmax or prototype head.
        out: the folder; it appears only when the check has passed.
        int8: round the weights of a transformer's matrix products.
        tolerance: of the check; by default :data:`SCORES`, with ``int8`` :data:`TAGS`.
        sentences: to check on; by default built-in text of eight domains. A very long sentence and one of odd words
            are always added.

    Raises:
        SetupError: for a part that has no ONNX form, or a result beyond the tolerance.

    Example:
        >>> from nershift.data.formats import read_corpus
        >>> test = read_corpus("corpora/news").test
        >>> export_onnx(Tagger.load("runs/news-1"), "exported", sentences=test).tags_changed
        0.0
    """
    _refuse(tagger, int8)
    _need_packages()
    folder = Path(out)
    refuse_other_folder(folder)
    with replacing(folder) as temporary:
        temporary.mkdir()
        described = _WRITERS[tagger.model.encoder.onnx_form](tagger, tagger.model.encoder, temporary, int8)
        described |= {"format": FORMAT, "precision": "int8" if int8 else "fp32"}
        described |= {"decoder": _describe_head(_head(tagger)), "meta": tagger.meta}
        _write_description(temporary, described)
        checked = sentences or _builtin()
        check = compare(tagger, OnnxTagger.load(temporary), [*checked, *_hard(checked)])
        if excess := check.excess(int8, tolerance):
            raise SetupError(
                f"the exported tagger is not the tagger: {excess}",
                place=str(folder),
                expected="the same scores" if not int8 else "nearly the same tags",
                fix=_advice(check, int8),
            )
        _write_description(temporary, described | {"check": asdict(check)})
        write_manifest(temporary, [path for path in temporary.rglob("*") if path.is_file()])
    return check


def _advice(check: Check, int8: bool) -> str:
    if int8:
        return "export without --int8, or allow more with --tolerance"
    return "report this" if check.excess(int8, None) else f"allow more with --tolerance (default {SCORES:g})"


@torch.no_grad()
def compare(tagger: Tagger, exported: OnnxTagger, sentences: Sequence[Sentence]) -> Check:
    """Run both over the same batches; scores are compared before decoding, tags after it."""
    model, head = tagger.model, _head(tagger)
    difference = largest = 0.0
    tokens = changed = 0
    for part in by_length(sentences, _BATCH):
        rows = [sentences[i].tokens for i in part]
        batch = model.batch(tagger.key, [sentences[i] for i in part], [model.encoder.prepare(r) for r in rows])
        states = model.states(batch)
        ours, mask = head.project(states).float().cpu().numpy(), batch.mask.cpu().numpy()
        theirs, their_mask = exported.reader.scores(rows)
        assert np.array_equal(mask, their_mask)
        gaps = np.nan_to_num(np.abs(ours - theirs)[mask], nan=np.inf)  # max() would pass over a NaN
        difference = max(difference, float(gaps.max()))
        # A prototype that no example has stands at a score far below all others.
        largest = max(largest, float(np.abs(ours)[mask & (np.abs(ours) < 1e8).all(-1)].max(initial=0.0)))
        tags = np.concatenate([np.array(row) for row in head.decode(states, batch.mask)])
        changed += int((tags != exported.head.tags(theirs, mask)[mask]).sum())
        tokens += len(tags)
    return Check(len(sentences), tokens, difference, largest, changed / max(1, tokens))


def refuse_other_folder(folder: Path) -> None:
    """A folder may be written if it is new, empty or an earlier export."""
    usable = folder.is_dir() and ((folder / DESCRIPTION).exists() or not any(folder.iterdir()))
    if folder.exists() and not usable:
        found = "is not empty and holds no exported tagger"
        raise CheckpointError(found, place=str(folder), fix="choose another --out")


def _refuse(tagger: Tagger, int8: bool) -> None:
    """Say what has no ONNX form before anything is written."""
    encoder, head = tagger.model.encoder, tagger.model.head(tagger.key)
    why = encoder.not_exportable
    if tagger.adapter is not None:
        why = "it adapts its weights to every sentence, which takes gradients"
    elif not head.exportable:
        why = f"its head '{head.kind}' is more than a linear layer and a search over tags"
    if why:
        raise SetupError(
            f"this tagger has no ONNX form: {why}",
            place=f"method '{tagger.meta.get('method', 'unknown')}'",
            expected="words, characters and a recurrent layer, or a transformer; a CRF or softmax head",
            fix="deploy the tagger's own folder, or train a tagger with these parts",
        )
    if int8 and encoder.onnx_form != "transformer":
        raise SetupError(
            "int8 is for transformer taggers",
            place="--int8",
            expected="a tagger with a transformer encoder",
            fix="omit --int8: a recurrent tagger is small and fast already",
        )


def _need_packages() -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtraError(package, "onnx", "the export to ONNX") from None


def _write_recurrent(tagger: Tagger, encoder: RecurrentEncoder, folder: Path, int8: bool) -> dict[str, Any]:
    import onnx

    from nershift.tagger.onnx.graph import sentences_model, words_model

    words = words_model(encoder)
    onnx.save(words, str(folder / WORDS))
    onnx.save(sentences_model(encoder, _head(tagger).project), str(folder / MODEL))
    return {
        "kind": "recurrent",
        "encoder": {
            "words": encoder.words.vocabulary.words[2:],
            "characters": encoder.characters.words[2:],
            "max_length": encoder.config.chars.max_length,
            "chars": encoder.chars is not None,
            "gates": words.graph.output[0].type.tensor_type.shape.dim[1].dim_value,
        },
    }


def _write_transformer(tagger: Tagger, encoder: TransformerEncoder, folder: Path, int8: bool) -> dict[str, Any]:
    from nershift.tagger.onnx.transformer import quantise, write_model

    project = _head(tagger).project
    if int8:
        whole = folder / "float.onnx"
        write_model(encoder, project, whole)
        quantise(whole, folder / MODEL)
        whole.unlink()
    else:
        write_model(encoder, project, folder / MODEL)
    backend = encoder.tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    write_text(folder / TOKENIZER, backend.to_str())
    return {
        "kind": "transformer",
        "encoder": {
            "frame": asdict(encoder.frame),
            "characters": encoder.characters.words[2:] if encoder.chars is not None else None,
            "max_length": encoder.config.chars.max_length,
        },
    }


# By the ``onnx_form`` of an encoder.
_WRITERS: dict[str, Callable[[Tagger, Any, Path, bool], dict[str, Any]]] = {
    "recurrent": _write_recurrent,
    "transformer": _write_transformer,
}


def _head(tagger: Tagger) -> TagHead:
    """The head, which is exportable: a linear layer that scores tags, then a search."""
    head = tagger.model.head(tagger.key)
    if not isinstance(head, TagHead):
        raise TypeError(f"head '{head.kind}' says that it is exportable, but has no tags")
    return head


def _describe_head(head: TagHead) -> dict[str, Any]:
    chain = {name: scores.detach().cpu().tolist() for name, scores in head.chain_scores().items()}
    return head.describe() | {"temperature": head.temperature} | chain


def _write_description(folder: Path, description: Mapping[str, Any]) -> None:
    write_text(folder / DESCRIPTION, json.dumps(description, ensure_ascii=False))


def _builtin(each: int = 25) -> list[Sentence]:
    from nershift.data.builtin import BUILTIN_DOMAINS, builtin_corpus

    return [s for domain in BUILTIN_DOMAINS for s in builtin_corpus(domain).test[:each]]


def _hard(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Longer than any window, a single word, and words no training text has."""
    words = [token for s in sentences for token in s.tokens]
    return [Sentence.of(words[:700]), Sentence.of(words[:1] or ["."]), Sentence.of(_ODD)]
