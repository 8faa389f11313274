"""The recurrent tagger as two ONNX graphs: what is said of a word form alone, and what its sentence adds.

A word's vector, its letters and its share of the first recurrent layer's gates do not depend on the sentence. The
first graph computes them for word forms not met before; the runtime keeps them, and the second graph only runs
what goes from word to word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from nershift.encoders.recurrent import RecurrentEncoder
from nershift.encoders.words import CharCNN

Array = NDArray[Any]

OPSET, IR = 18, 8  # as old as the operators allow, so that older runtimes can read the file
_LOWEST = -1e30


class Graph:
    """Nodes and constants under way to a model; every method returns the name of what it adds."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix  # names inside a loop must differ from those around it
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._count = 0

    def constant(self, value: Array | list[int]) -> str:
        from onnx import numpy_helper

        name = f"{self.prefix}c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.add_many(kind, 1, *inputs, **attributes)[0]

    def add_many(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        from onnx import helper

        names = [f"{self.prefix}t{self._count + i}" for i in range(outputs)]
        self._count += outputs
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def model(self, inputs: list[Any], output: str, shape: list[Any], name: str) -> Any:
        """A checked model whose last node's output is renamed to ``name``."""
        import onnx
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [output], [name]))
        given = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "nershift", inputs, [given], list(self.constants.values()))
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        onnx.checker.check_model(made)
        return made


def words_model(encoder: RecurrentEncoder) -> Any:
    """``rows [U]`` and ``chars [U, W]`` → ``gates [U, G]``, biases included.

    G runs over layers side by side, then the two directions, then gates; see :func:`_side`.
    """
    from onnx import TensorProto, helper

    graph, table = Graph(), _array(encoder.words.vectors())
    inputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, ["U"])]
    features = graph.add("Gather", graph.constant(table), "rows", axis=0)  # [U, D]
    if encoder.chars is not None:
        inputs.append(helper.make_tensor_value_info("chars", TensorProto.INT64, ["U", "W"]))
        features = graph.add("Concat", features, letters(graph, encoder.chars), axis=1)  # [U, F]
    sides = [_side(layer, 0, back) for layer in encoder.layers() for back in (False, True)]
    weight, bias = np.concatenate([s[0] for s in sides], 1), np.concatenate([s[1] for s in sides])
    gates = graph.add("Add", graph.add("MatMul", features, graph.constant(weight)), graph.constant(bias))
    return graph.model(inputs, gates, ["U", weight.shape[1]], "gates")


def letters(graph: Graph, cnn: CharCNN) -> str:
    """The character CNN over the graph's ``chars [U, W]`` → ``[U, filters]``.

    One matrix product over the windows of all words: runtimes are slow at convolutions of so few channels.
    """
    filters = _array(cnn.filters())  # [F, S, span]: all widths, aligned at their last column
    span = filters.shape[2]
    table = _array(cnn.embedding.weight).copy()
    table[0] = 0  # padding says nothing
    convolutions: list[Any] = list(cnn.convolutions)
    extra = np.concatenate([np.full(c.out_channels, c.kernel_size[0] - 1) for c in convolutions])  # [F]
    there = graph.add("Cast", graph.add("Cast", "chars", to=9), to=7)  # bool, int64: 1 for each letter
    lengths = graph.add("ReduceSum", there, graph.constant([1]), keepdims=1)  # [U, 1]
    # Windows that touch no letter are left out, so that a longer neighbour in the batch changes nothing.
    reach = graph.add("Add", lengths, graph.constant(extra))  # [U, F]
    padded = graph.add("Pad", "chars", graph.constant([0, span - 1, 0, span - 1]))
    count = graph.add("Shape", padded, start=1, end=2)
    count = graph.add("Squeeze", graph.add("Sub", count, graph.constant([span - 1])), graph.constant([0]))
    at = graph.add("Range", graph.constant(np.array(0)), count, graph.constant(np.array(1)))  # [P]
    at = graph.add("Unsqueeze", at, graph.constant([1]))  # [P, 1]
    windows = graph.add("Gather", padded, graph.add("Add", at, graph.constant(np.arange(span))), axis=1)
    x = graph.add("Gather", graph.constant(table), windows)  # [U, P, span, S]
    x = graph.add("Reshape", x, graph.constant([0, 0, span * table.shape[1]]))
    y = graph.add("MatMul", x, graph.constant(filters.transpose(2, 1, 0).reshape(-1, len(filters))))
    inside = graph.add("Less", at, graph.add("Unsqueeze", reach, graph.constant([1])))  # [U, P, F]
    y = graph.add("Where", inside, y, graph.constant(np.array(_LOWEST, np.float32)))
    y = graph.add("ReduceMax", y, graph.constant([1]), keepdims=0)  # [U, F]
    bias = np.concatenate([_array(c.bias) for c in convolutions])
    return graph.add("Relu", graph.add("Add", y, graph.constant(bias)))


def sentences_model(encoder: RecurrentEncoder, project: nn.Linear) -> Any:
    """``gates [U, G]``, ``where [L, B]`` (rows of gates) and ``lengths [B]`` → ``emissions [B, L, C]``."""
    from onnx import TensorProto, helper

    graph, layers = Graph(), encoder.layers()
    width = sum(len(_side(layer, 0, back)[1]) for layer in layers for back in (False, True))
    inputs = [
        helper.make_tensor_value_info("gates", TensorProto.FLOAT, ["U", width]),
        helper.make_tensor_value_info("where", TensorProto.INT64, ["L", "B"]),
        helper.make_tensor_value_info("lengths", TensorProto.INT64, ["B"]),
    ]
    cut = graph.add("Reshape", "gates", graph.constant([-1, width // (2 * len(layers))]))  # [U · sides, g]
    sides = graph.constant(np.array(2 * len(layers)))
    ahead = graph.add("Mul", "where", sides)  # [L, B]
    back = graph.add("ReverseSequence", ahead, "lengths", time_axis=0, batch_axis=1)
    found = []
    for n, layer in enumerate(layers):
        both = [graph.add("Add", x, graph.constant(np.array(2 * n + d))) for d, x in enumerate((ahead, back))]
        x = graph.add("Gather", cut, _stacked(graph, both), axis=0)  # [L, 2, B, g]
        states = _recur(graph, layer, 0, x)
        for depth in range(1, layer.num_layers):
            turned = graph.add("ReverseSequence", states, "lengths", time_axis=0, batch_axis=1)
            projected = [_project(graph, y, *_side(layer, depth, d)) for d, y in enumerate((states, turned))]
            states = _recur(graph, layer, depth, _stacked(graph, projected))
        found.append(states)
    states = found[0] if len(found) == 1 else graph.add("Concat", *found, axis=2)  # [L, B, H]
    emissions = _project(graph, states, _array(project.weight).T, _array(project.bias))
    emissions = graph.add("Transpose", emissions, perm=[1, 0, 2])
    return graph.model(inputs, emissions, ["B", "L", project.out_features], "emissions")


def _recur(graph: Graph, layer: Any, depth: int, x: str) -> str:
    """States ``[L, B, 2H]`` of gates ``x [L, 2, B, g]`` whose second side runs backward."""
    from onnx import TensorProto, helper

    size, gru = layer.hidden_size, isinstance(layer, nn.GRU)
    weights = [_array(_weight(layer, "weight_hh", depth, back)).T for back in (False, True)]
    step, names = Graph(f"{x}_"), ["h"] if gru else ["h", "c"]
    moved = step.add("MatMul", "h", graph.constant(np.stack(weights)))  # [2, B, g]
    if gru:
        bias = np.stack([_array(_weight(layer, "bias_hh", depth, b))[2 * size :] for b in (False, True)])
        out = [_gru(step, moved, size, graph.constant(bias[:, None]))]
    else:
        out = _lstm(step, moved)
    seen = step.add("Identity", out[0])
    batch = graph.add("Shape", x, start=2, end=3)
    shape = graph.add("Concat", graph.constant([2]), batch, graph.constant([size]), axis=0)
    zeros = graph.add("ConstantOfShape", shape)  # [2, B, H]

    def info(name: str, last: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, None, last])

    body = helper.make_graph(
        step.nodes,
        "step",
        [*(info(name, size) for name in names), info("x", len(weights[0].T))],
        [*(info(name, size) for name in out), info(seen, size)],
        list(step.constants.values()),
    )
    *_, states = graph.add_many(
        "Scan", len(names) + 1, *[zeros] * len(names), x, body=body, num_scan_inputs=1
    )  # [L, 2, B, H]
    ahead, back = (
        graph.add("Squeeze", side, graph.constant([1]))
        for side in graph.add_many("Split", 2, states, graph.constant([1, 1]), axis=1)
    )
    back = graph.add("ReverseSequence", back, "lengths", time_axis=0, batch_axis=1)
    return graph.add("Concat", ahead, back, axis=2)


def _gru(step: Graph, moved: str, size: int, bias: str) -> str:
    """r, z, n as torch orders them; the bias of n is inside its product with r, hence not in the input's."""
    cut = step.constant([2 * size, size])
    m, m_new = step.add_many("Split", 2, moved, cut, axis=2)
    x, x_new = step.add_many("Split", 2, "x", cut, axis=2)
    r, z = step.add_many("Split", 2, step.add("Sigmoid", step.add("Add", m, x)), axis=2, num_outputs=2)
    new = step.add("Add", step.add("Mul", r, step.add("Add", m_new, bias)), x_new)
    new = step.add("Tanh", new)
    return step.add("Add", new, step.add("Mul", z, step.add("Sub", "h", new)))


def _lstm(step: Graph, moved: str) -> list[str]:
    """i, f, g, o as torch orders them; the new h and c."""
    i, f, g, o = step.add_many("Split", 4, step.add("Add", moved, "x"), axis=2, num_outputs=4)
    kept = step.add("Mul", step.add("Sigmoid", f), "c")
    c = step.add("Add", kept, step.add("Mul", step.add("Sigmoid", i), step.add("Tanh", g)))
    return [step.add("Mul", step.add("Sigmoid", o), step.add("Tanh", c)), c]


def _side(layer: Any, depth: int, back: bool | int) -> tuple[Array, Array]:
    """Weight ``[input, g]`` and bias ``[g]`` of what a layer's input adds to the gates of one direction."""
    weight = _array(_weight(layer, "weight_ih", depth, bool(back))).T
    bias = _array(_weight(layer, "bias_ih", depth, bool(back))).copy()
    known = 2 * layer.hidden_size if isinstance(layer, nn.GRU) else len(bias)
    bias[:known] += _array(_weight(layer, "bias_hh", depth, bool(back)))[:known]
    return weight, bias


def _weight(layer: Any, name: str, depth: int, back: bool) -> Tensor:
    weight: Tensor = getattr(layer, f"{name}_l{depth}{'_reverse' * back}")
    return weight


def _stacked(graph: Graph, sides: list[str]) -> str:
    return graph.add("Concat", *(graph.add("Unsqueeze", s, graph.constant([1])) for s in sides), axis=1)


def _project(graph: Graph, x: str, weight: Array, bias: Array) -> str:
    return graph.add("Add", graph.add("MatMul", x, graph.constant(weight)), graph.constant(bias))


def _array(tensor: Tensor) -> Array:
    return tensor.detach().float().cpu().numpy()
