"""The transformer tagger as one ONNX graph, from windows of sub-words to the scores of tags; int8 on demand."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nershift.encoders.transformer import TransformerEncoder
from nershift.errors import MissingExtraError, SetupError

_AXES = {
    "input_ids": {0: "N", 1: "S"},
    "attention_mask": {0: "N", 1: "S"},
    "where": {0: "B", 1: "L"},
    "form": {0: "B", 1: "L"},
    "chars": {0: "U", 1: "W"},
}
_BLOCK = 128  # weights that share a scale
_INT8_PRODUCTS = 4  # ONNX Runtime's name for products of int8 with int8


class Scores(nn.Module):
    """The part of a tagger that becomes a graph; attention is written out, which every runtime understands."""

    def __init__(self, encoder: TransformerEncoder, project: nn.Linear) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder.model)
        with contextlib.suppress(AttributeError, ValueError):
            self.encoder.set_attn_implementation("eager")
        self.chars, self.project = encoder.chars, project

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        where: Tensor,
        form: Tensor | None = None,
        chars: Tensor | None = None,
    ) -> Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        states = hidden.flatten(0, 1)[where]  # [N, S, H] -> [B, L, H]
        if self.chars is not None and form is not None and chars is not None:
            letters = self.chars.convolve(self.chars.embedding(chars), chars != 0)  # [U, F]
            states = torch.cat([states, letters[form]], -1)
        return self.project(states)  # [B, L, C]


def write_model(encoder: TransformerEncoder, project: nn.Linear, path: Path) -> None:
    """Export to ``path``, any number and length of windows and sentences allowed."""
    scores = Scores(encoder, project).cpu().eval()
    # Sizes that all differ and are not 1: equal ones, and ones, would be taken for a rule.
    windows, length, sentences, tokens, forms, letters = 3, 8, 2, 5, 6, 7
    ids = torch.full((windows, length), encoder.frame.unknown)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    given["where"] = torch.arange(sentences * tokens).view(sentences, tokens)
    if encoder.chars is not None:
        given |= {"form": given["where"] % forms, "chars": torch.ones(forms, letters, dtype=torch.long)}
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                scores,
                kwargs=given,
                dynamo=True,
                dynamic_shapes={name: _AXES[name] for name in given},
                input_names=list(given),
                output_names=["emissions"],
                verbose=False,
            )
            assert program is not None
            program.save(str(path), external_data=False)
    except ImportError as error:
        raise MissingExtraError(error.name or "onnxscript", "onnx", "the export to ONNX") from None
    except Exception as error:  # the exporter raises whatever its many stages do
        raise SetupError(
            f"torch cannot write {type(encoder.model).__name__} as ONNX ({_first_line(error)})",
            place=encoder.config.transformer.name,
            expected="an architecture such as BERT, DistilBERT, RoBERTa or MPNet",
            fix="deploy the tagger's own folder instead, or train with another encoder",
        ) from error


def quantise(path: Path, out: Path) -> None:
    """Matrix products in int8: weights and, as they come, activations get a scale for every 128 numbers.

    One scale for a whole activation is quicker still, but a transformer's few large activations then drown the
    rest and entities are lost. Embeddings and the layer that scores tags stay as they are.
    """
    import onnx

    try:
        from onnxruntime.quantization.matmul_nbits_quantizer import (
            DefaultWeightOnlyQuantConfig,
            MatMulNBitsQuantizer,
        )

        config = DefaultWeightOnlyQuantConfig(
            block_size=_BLOCK, is_symmetric=True, accuracy_level=_INT8_PRODUCTS, bits=8
        )
    except (ImportError, TypeError):
        raise MissingExtraError("onnxruntime>=1.22", "onnx", "an export in int8") from None
    model = onnx.load(str(path))
    last = [node.name for node in model.graph.node if node.op_type == "MatMul"][-1:]
    with _quiet():
        made = MatMulNBitsQuantizer(model, algo_config=config, nodes_to_exclude=last)
        made.process()
        made.model.save_model_to_file(str(out), use_external_data_format=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters report their progress to standard output and warn of what is none of the user's business."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_line(error: BaseException) -> str:
    cause: Any = error.__cause__ or error
    return next(iter(str(cause).strip().splitlines()), type(cause).__name__)[:200]
