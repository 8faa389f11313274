"""The training of DATNet: which batches a step has, and its losses (eqs. 2-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.methods.adversary import reverse
from nershift.methods.base import TARGET
from nershift.methods.datnet.grad_loss import ResourceDiscriminator, grad_loss, plain_loss
from nershift.methods.datnet.model import DATNetModel, ResourceModel
from nershift.methods.datnet.options import CommonOptions
from nershift.methods.datnet.paired_batch import PairedBatch
from nershift.methods.datnet.perturbation import Features
from nershift.model import Batch
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator
from nershift.training.stage import Backward, TrainingStage


@dataclass(frozen=True)
class AdversaryLosses:
    """What the discriminator makes of the batches of a step."""

    states: Tensor  # [B, L, shared], behind the gradient reversal
    losses: list[Tensor]  # one per batch
    accuracy: dict[bool, Tensor]  # share of sentences it classifies correctly: True for the source's


@dataclass(frozen=True)
class StepLosses:
    """The losses of one forward pass over the batches of a step."""

    tagging: list[Tensor]  # ℓ_S, ℓ_T
    adversary: AdversaryLosses | None

    @property
    def total(self) -> Tensor:
        return torch.stack([*self.tagging, *(self.adversary.losses if self.adversary else ())]).sum()  # eq. 2


class DATNetStage(TrainingStage):
    """The sampler called ``target`` trains the target's tagger; the others, one per source corpus, the source's.

    Every step has a source batch. A target of ``b`` batches among ``S`` steps per epoch would hardly be seen: it
    gets ``b · (S / b)^(1 - sampling_exponent)`` of them, evenly spread, in as many passes over it as that takes; at
    the default of 1/2 that is the geometric mean of ``b`` and ``S``. A target alone has a batch in every step.
    Losses are means over each batch, so within a step source and target weigh the same.
    """

    cuda_graph_safe = True
    model: DATNetModel

    def __init__(
        self,
        model: DATNetModel,
        config: TrainConfig,
        samplers: Mapping[str, BatchSampler],
        seed: int,
        dev: Sequence[tuple[str, Sequence[Sentence]]],
        options: CommonOptions,
    ) -> None:
        super().__init__("train", model, config, samplers, seed, dev)
        self.options = options
        self.sources = {name: sampler for name, sampler in self.samplers.items() if name != TARGET}
        own = self.samplers[TARGET].per_epoch
        available = sum(sampler.per_epoch for sampler in self.sources.values())
        self.steps_per_epoch = options.epoch_steps or max(own, round(options.source_share * available), 1)
        self.target_steps = self.steps_per_epoch
        if self.sources:
            wanted = round(own * (self.steps_per_epoch / own) ** (1 - options.sampling_exponent))
            self.target_steps = min(self.steps_per_epoch, max(own, wanted))
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
        """The source batch of a step: each round passes once over every source, in shuffled order."""
        length = sum(sampler.per_epoch for sampler in self.sources.values())
        number, at = divmod(step, length)
        if number != self._round:
            turns = [(n, number * s.per_epoch + i) for n, s in self.sources.items() for i in range(s.per_epoch)]
            generator(self.seed, self.name, "turns", number).shuffle(turns)
            self._round, self._turns = number, turns
        return self._turns[at]

    def resource(self, name: str) -> ResourceModel:
        """The tagger that the batches of a sampler train."""
        if name == TARGET or self.model.source is None:
            return self.model
        return self.model.source

    # -- a step ------------------------------------------------------------------------------------------

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        options = self.options
        pair = PairedBatch([(self.resource(name).encoder, batch.inputs) for name, batch in batches.items()])
        features = pair.features(keep_gradients=options.adversarial_training)
        clean = self.losses(batches, pair, features)
        backward(clean.total)  # eq. 2
        logged = self._logged(clean)
        if options.adversarial_training:
            # The backward pass left g, the gradient of the inputs. As the encoder minimises the adversary's part with
            # its sign reversed, a perturbed sentence is harder to tag and easier to tell source from target.
            words = [options.epsilon_target if name == TARGET else options.epsilon_source for name in batches]
            perturbation = pair.perturbation(features, words, options.epsilon_chars)  # eq. 3
            perturbed = self.losses(batches, pair, pair.perturbed_features(perturbation))
            backward(perturbed.total)  # eq. 4: the gradients of both losses add up
            logged["perturbed_loss"] = torch.stack(perturbed.tagging).mean().detach()
        return logged

    def losses(self, batches: Mapping[str, Batch], pair: PairedBatch, features: Features) -> StepLosses:
        shared, states = pair.states(features)
        tagging = [
            self.resource(name).loss(batch, own)  # ℓ_S, ℓ_T (§3.4)
            for (name, batch), own in zip(batches.items(), states, strict=True)
        ]
        if self.model.discriminator is None:
            return StepLosses(tagging, None)
        return StepLosses(tagging, self._adversary(self.model.discriminator, batches, pair, shared))

    def _adversary(
        self, discriminator: ResourceDiscriminator, batches: Mapping[str, Batch], pair: PairedBatch, shared: Tensor
    ) -> AdversaryLosses:
        options = self.options
        states = reverse(shared, options.adversary_weight)  # §3.3: the encoder gets the negated gradient
        states.retain_grad()
        logits = discriminator(states, pair.mask)  # [B]
        losses, accuracy = list[Tensor](), dict[bool, Tensor]()
        for name, side in zip(batches, pair.sides, strict=True):
            source, own = name != TARGET, logits[side.at]  # [b]
            if options.adversary == "grad":
                loss = grad_loss(own, source, options.alpha, options.gamma)  # eq. 1
            else:
                loss = plain_loss(own, source)
            losses.append(loss.mean())
            accuracy[source] = ((own > 0) == source).float().mean()
        return AdversaryLosses(states, losses, accuracy)

    def _logged(self, clean: StepLosses) -> dict[str, Tensor]:
        logged = {"loss": torch.stack(clean.tagging).mean()}
        if (adversary := clean.adversary) is not None:
            logged["adversary_loss"] = torch.stack(adversary.losses).sum()
            # Averaged over an epoch, this is the mean of both resources: only some steps have a target batch.
            scale = {True: 0.5, False: 0.5 * self.steps_per_epoch / self.target_steps}
            accuracy = [scale[source] * share for source, share in adversary.accuracy.items()]
            logged["adversary_accuracy"] = torch.stack(accuracy).sum()
            if (gradient := adversary.states.grad) is not None:  # what the discriminator tells the shared layer
                logged["adversary_gradient"] = self.options.adversary_weight * gradient.norm()
        return {name: value.detach() for name, value in logged.items()}
