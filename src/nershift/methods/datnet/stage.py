"""What a training step of DATNet is: which batches, the losses of eq. 2, and those of moved inputs (eq. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.methods.adversary import reverse
from nershift.methods.base import TARGET
from nershift.methods.datnet.grad_loss import ResourceDiscriminator, grad_loss, plain_loss
from nershift.methods.datnet.paired_batch import PairedBatch
from nershift.methods.datnet.perturbation import Features, Moves
from nershift.methods.datnet.shared_private import shared_part
from nershift.model import Batch, TaggingModel
from nershift.training.seeding import generator
from nershift.training.stage import Backward, TrainingStage


@dataclass(frozen=True)
class DualSettings:
    """The options of the method that decide a step; see there."""

    adversary: Literal["grad", "ad", "none"]
    alpha: float
    gamma: float
    weight: float
    perturb: bool
    epsilon_source: float
    epsilon_target: float
    epsilon_chars: float
    source_share: float
    balance: float
    epoch_steps: int = 0


@dataclass
class _Pass:
    """One forward pass over the batches of a step."""

    joint: PairedBatch
    features: Features
    tagging: dict[str, Tensor]
    adversary: list[Tensor] = field(default_factory=list)
    told: dict[bool, Tensor] = field(default_factory=dict)  # share the discriminator told rightly, by source
    reversed: Tensor | None = None

    def loss(self) -> Tensor:
        return torch.stack([*self.tagging.values(), *self.adversary]).sum()  # eq. 2


class DualStage(TrainingStage):
    """The sampler called ``target`` and, where there is a source, the others: its corpora.

    Balance. With S steps in an epoch every step has a source batch. The target has b batches, which would be
    lost among them; it gets ``b · (S / b)^(1 - balance)`` of them, evenly spread, going round and round: with
    the default 1/2 the geometric mean of its own size and the source's. A target alone has a batch in every step,
    round and round where ``epoch_steps`` sets the length of an epoch. Loss and adversary of a step take the
    mean over each of its batches, so that within a step source and target weigh the same.
    """

    recordable = True

    def __init__(self, *args: Any, settings: DualSettings, **more: Any) -> None:
        super().__init__(*args, **more)
        self.settings = settings
        self.sources = {name: sampler for name, sampler in self.samplers.items() if name != TARGET}
        own = self.samplers[TARGET].per_epoch
        available = sum(sampler.per_epoch for sampler in self.sources.values())
        natural = max(own, round(settings.source_share * available), 1)
        self.steps_per_epoch = settings.epoch_steps or natural
        self.target_steps = self.steps_per_epoch
        if self.sources:
            raised = own * (self.steps_per_epoch / own) ** (1 - settings.balance)
            self.target_steps = min(self.steps_per_epoch, max(own, round(raised)))
        self._round, self._turns = -1, list[tuple[str, int]]()

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        epoch, at = divmod(step, self.steps_per_epoch)
        batches = {}
        if self.sources:
            name, k = self._turn(step)
            batches[name] = self.sources[name].batch(k, rank, world)
        before, after = (i * self.target_steps // self.steps_per_epoch for i in (at, at + 1))
        if after > before:
            batches[TARGET] = self.samplers[TARGET].batch(epoch * self.target_steps + before, rank, world)
        return batches

    def _turn(self, step: int) -> tuple[str, int]:
        """The source batch of a step: every source passes over its sentences once a round, in mixed order."""
        length = sum(sampler.per_epoch for sampler in self.sources.values())
        number, at = divmod(step, length)
        if number != self._round:
            turns = [(n, number * f.per_epoch + i) for n, f in self.sources.items() for i in range(f.per_epoch)]
            generator(self.seed, self.name, "turns", number).shuffle(turns)
            self._round, self._turns = number, turns
        return self._turns[at]

    # -- a step ------------------------------------------------------------------------------------------

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        joint = PairedBatch([(self._encoder(name), batch.inputs) for name, batch in batches.items()])
        clean = self._forward(batches, joint, joint.clean(keep=self.settings.perturb))
        backward(clean.loss())
        logged = self._logged(clean)
        if self.settings.perturb:
            # The clean pass has left the gradients of the inputs. They are those of the encoder's own
            # objective, in which the adversary's part is reversed: a moved sentence is harder to tag and
            # gives its resource away.
            moved = self._forward(batches, joint, joint.moved(self._moves(batches, clean)))
            backward(moved.loss())  # eq. 4: both losses count
            logged["moved_loss"] = torch.stack(list(moved.tagging.values())).mean().detach()
        return logged

    def _moves(self, batches: Mapping[str, Batch], clean: _Pass) -> Moves:
        s = self.settings
        words = [s.epsilon_target if name == TARGET else s.epsilon_source for name in batches]
        return clean.joint.moves(clean.features, words, s.epsilon_chars)

    def _forward(self, batches: Mapping[str, Batch], joint: PairedBatch, features: Features) -> _Pass:
        shared, states = joint.states(features)
        tagging = {
            name: self.side(name).loss(batch, own)  # ℓ_S, ℓ_T
            for (name, batch), own in zip(batches.items(), states, strict=True)
        }
        made = _Pass(joint, features, tagging)
        if self.settings.adversary != "none":
            self._oppose(made, shared, [name != TARGET for name in batches])
        return made

    def side(self, name: str) -> TaggingModel:
        """The model that a sampler trains."""
        model = self.model if name == TARGET else self.model.extras["source"]
        assert isinstance(model, TaggingModel)
        return model

    def _encoder(self, name: str) -> RecurrentEncoder:
        encoder = self.side(name).encoder
        assert isinstance(encoder, RecurrentEncoder)
        return encoder

    def _oppose(self, made: _Pass, states: Tensor, sources: Sequence[bool]) -> None:
        s, discriminator = self.settings, self.model.extras["discriminator"]
        assert isinstance(discriminator, ResourceDiscriminator)
        hidden = made.reversed = reverse(states, s.weight)
        hidden.retain_grad()
        logits = discriminator(hidden, made.joint.mask)  # [B]
        for source, side in zip(sources, made.joint.sides, strict=True):
            own = logits[side.at]
            told = grad_loss(own, source, s.alpha, s.gamma) if s.adversary == "grad" else plain_loss(own, source)
            made.adversary.append(told.mean())
            made.told[source] = ((own > 0) == source).float().mean()

    def _logged(self, clean: _Pass) -> dict[str, Tensor]:
        logged = {"loss": torch.stack(list(clean.tagging.values())).mean()}
        if clean.adversary:
            logged["adversary_loss"] = torch.stack(clean.adversary).sum()
            # Mean of both resources' shares over an epoch, in which the target comes in some steps only.
            scale = {True: 0.5, False: 0.5 * self.steps_per_epoch / self.target_steps}
            logged["adversary_accuracy"] = torch.stack([scale[k] * v for k, v in clean.told.items()]).sum()
            # What the adversary tells the shared layer: the norm of its gradient there.
            assert clean.reversed is not None
            assert clean.reversed.grad is not None
            logged["adversary_gradient"] = self.settings.weight * clean.reversed.grad.norm()
        return {name: value.detach() for name, value in logged.items()}


@torch.no_grad()
def pooled_states(model: TaggingModel, key: str, sentences: Sequence[Sentence], batch_size: int = 64) -> Tensor:
    """The mean shared state of each sentence, ``[N, shared]``, on the CPU."""
    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoder)
    was_training = model.training
    model.eval()
    rows: dict[int, Tensor] = {}
    for part, batch in model.batches(key, sentences, batch_size):
        states = shared_part(encoder, model.states(batch))
        means = states.sum(1) / batch.mask.sum(1, keepdim=True)  # states are zero under padding
        rows |= dict(zip(part, means.float().cpu(), strict=True))
    model.train(was_training)
    return torch.stack([rows[i] for i in sorted(rows)])
