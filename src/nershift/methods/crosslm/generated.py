"""A BiLSTM whose weights are generated: W ⊗ I_domain ⊗ I_task, one set for each domain and task (CrossLM eq. 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nershift.encoders.birnn import Packing, fast_kernels, padded_states

Place = Mapping[str, str]  # a name by axis


class LSTMGenerator(nn.Module):
    """Generates the weights of bidirectional LSTMs of one shape, and runs them.

    A place has a name on each axis, such as ``{"domain": "news", "task": "ner"}``; what a place says of other
    axes has no effect, and without axes all places share one set of weights. The weights of a place are
    ``c @ W``, where the coefficients ``c`` are the outer product of its names' vectors.

    Two places learn from each other as far as their coefficients point the same way: with ``c`` fixed, a
    gradient step for one place moves another by the inner product of the two. ``spread`` decides how near the
    vectors of an axis begin: 1 draws them independently, 0 makes them equal, and their expected inner product
    is ``1 - spread``. All vectors begin with length one, so that the generated weights have just the variance
    of an ordinary LSTM's, 1 / (3 · hidden size).

    Args:
        lstm: an LSTM of the shape to generate; its weights are not used.
        axes: the names on each axis.
        size: of a name's vector (U and V of the paper).
        spread: by axis, 1 where left out.
    """

    def __init__(
        self,
        lstm: nn.LSTM,
        axes: Mapping[str, Sequence[str]],
        size: int = 8,
        spread: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.hidden, self.layers = lstm.hidden_size, lstm.num_layers
        self._index = {axis: {name: i for i, name in enumerate(names)} for axis, names in axes.items()}
        self.vectors = nn.ParameterList(
            _directions(len(names), size, (spread or {}).get(axis, 1.0)) for axis, names in axes.items()
        )
        # As one vector: all matrices, then all biases. cuDNN keeps weights in this order, and can use a
        # vector so laid out as it is.
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
        """The weights of each place as one vector; a single product makes those of all places."""
        with torch.autocast(self.weight.device.type, enabled=False):
            made = self.coefficients(places) @ self.weight  # [places, P]
        return [row.clone() for row in made.unbind()]  # in memory of their own, as cuDNN wants them

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """The parts of a vector under the names that ``nn.LSTM`` gives them."""
        parts = weights.split([self._shapes[name].numel() for name in self._order])
        return {name: part.view(self._shapes[name]) for name, part in zip(self._order, parts, strict=True)}

    def run(self, x: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        """States ``[B, L, 2 · hidden]`` of inputs ``[B, L, F]`` by the recurrent kernels; zero under padding."""
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
        """Make ``lstm`` the ordinary LSTM of a place."""
        for name, value in self.named(self([place])[0]).items():
            getattr(lstm, name).copy_(value)


def _weight_names(layers: int) -> list[str]:
    """In the order in which the kernels take them."""
    kinds, ends = ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), ("", "_reverse")
    return [f"{kind}_l{layer}{end}" for layer in range(layers) for end in ends for kind in kinds]


def _directions(count: int, size: int, spread: float) -> nn.Parameter:
    """Vectors of length one around a common direction."""
    common, own = torch.randn(1, size), torch.randn(count, size)
    common, own = nn.functional.normalize(common), nn.functional.normalize(own)
    own = nn.functional.normalize(own - (own @ common.T) * common)  # the part that is not common
    return nn.Parameter((1 - spread) ** 0.5 * common + spread**0.5 * own)
