"""The parameter generation network (§3.2, eq. 2): BiLSTM weights W ⊗ I_domain ⊗ I_task for each domain and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nershift.encoders.recurrent import Packing, fast_kernels, padded_states

Place = Mapping[str, str]  # a name by axis


class LSTMGenerator(nn.Module):
    """Generates the weights of bidirectional LSTMs of one shape, and runs them.

    A place has a name on each axis, such as ``{"domain": "news", "task": "ner"}``; names on axes that the generator
    does not have are ignored, and without axes all places share one set of weights. The weights of a place are
    ``c @ W``; the coefficients ``c`` are the outer product of the embeddings of its names.

    Two places learn from each other as far as their coefficients point the same way: with ``c`` fixed, a gradient
    step for one place moves another by the inner product of the two. ``spread`` sets how near the embeddings of
    an axis start: 1 draws them independently, 0 makes them equal, and their expected inner product is
    ``1 - spread``. All start with length one, so the generated weights have the variance of an ordinary LSTM's,
    1 / (3 · hidden size).

    Args:
        lstm: an LSTM of the shape to generate; its weights are not used.
        axes: the names on each axis.
        size: of an embedding (U and V of the paper).
        spread: by axis, 1 where omitted.
    """

    def __init__(
        self,
        lstm: nn.RNNBase,
        axes: Mapping[str, Sequence[str]],
        size: int = 8,
        spread: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.hidden, self.layers = lstm.hidden_size, lstm.num_layers
        self._index = {axis: {name: i for i, name in enumerate(names)} for axis, names in axes.items()}
        self.vectors = nn.ParameterList(  # I_D, I_T
            _directions(len(names), size, (spread or {}).get(axis, 1.0)) for axis, names in axes.items()
        )
        # One vector: all matrices, then all biases. This is cuDNN's own layout, so it can use the vector as it is.
        self._names = _weight_names(self.layers)
        self._order = sorted(self._names, key=lambda name: name.startswith("bias"))
        self._shapes = {name: getattr(lstm, name).shape for name in self._names}
        bound = self.hidden**-0.5
        total = sum(shape.numel() for shape in self._shapes.values())
        self.weight = nn.Parameter(torch.empty(size ** len(self._index), total).uniform_(-bound, bound))

    def coefficients(self, places: Sequence[Place]) -> Tensor:
        """``[places, rows of W]``."""
        out = self.weight.new_ones(len(places), 1)
        for (axis, index), vectors in zip(self._index.items(), self.vectors, strict=True):
            rows = torch.stack([vectors[index[place[axis]]] for place in places])  # [places, size]
            out = (out[:, :, None] * rows[:, None]).flatten(1)
        return out

    def forward(self, places: Sequence[Place]) -> list[Tensor]:
        """The weights of each place as one vector ``[P]``; one product generates them all."""
        with torch.autocast(self.weight.device.type, enabled=False):
            weights = self.coefficients(places) @ self.weight  # [places, P], eq. 2
        return [row.clone() for row in weights.unbind()]  # each in its own memory, as cuDNN wants

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """The parts of such a vector, by their names in ``nn.LSTM``."""
        parts = weights.split([self._shapes[name].numel() for name in self._order])
        return {name: part.view(self._shapes[name]) for name, part in zip(self._order, parts, strict=True)}

    def run(self, x: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        """Eq. 3: states ``[B, L, 2 · hidden]`` of inputs ``[B, L, F]``; zero under padding."""
        parts = self.named(weights)
        flat = [parts[name] for name in self._names]
        if fast_kernels(x):
            return padded_states("lstm", flat, x, lengths, self.training)
        packing = Packing.of(lengths, x)
        packed = packing.pack(x)
        zeros = x.new_zeros(2 * self.layers, len(x), self.hidden)
        states, _, _ = torch._VF.lstm(
            packed.data,
            packed.batch_sizes,
            (zeros, zeros),
            flat,
            True,  # with biases
            self.layers,
            0.0,  # no dropout between layers
            self.training,
            True,  # both directions
        )
        return packing.unpack(states)

    @torch.no_grad()
    def write(self, lstm: nn.Module, place: Place) -> None:
        """Copy the weights of a place into an ordinary LSTM."""
        for name, value in self.named(self([place])[0]).items():
            getattr(lstm, name).copy_(value)


def _weight_names(layers: int) -> list[str]:
    """In the order in which the LSTM kernels take them."""
    kinds, ends = ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), ("", "_reverse")
    return [f"{kind}_l{layer}{end}" for layer in range(layers) for end in ends for kind in kinds]


def _directions(count: int, size: int, spread: float) -> nn.Parameter:
    """Embeddings of length one around a common direction."""
    common, own = torch.randn(1, size), torch.randn(count, size)
    common, own = nn.functional.normalize(common), nn.functional.normalize(own)
    own = nn.functional.normalize(own - (own @ common.T) * common)  # orthogonal to it
    return nn.Parameter((1 - spread) ** 0.5 * common + spread**0.5 * own)
