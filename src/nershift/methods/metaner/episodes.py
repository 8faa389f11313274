"""Beyond the paper: episodes that do in small what deployment does, a new head and a few labels.

Algorithm 1 never makes a head from nothing and never learns from few sentences. An episode does both:

    draw one source, a few of its sentences (the support) and others of it (the query)
    make a new head φ, started as that of a target
    θ', φ' = some updates of θ, φ on the support, by the optimiser that the target gets
    gradient of θ:  ∇θ L_query(θ', φ')   (maml, of first order)   or   θ - θ'   (reptile)

Beside it every step learns one plain batch of the sources, which trains the heads that are kept. Without episodes
(``episode_weight: 0``) the stage is the plain fine-tuning stage, batch for batch: the control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

import torch
from torch import Tensor

from nershift.config import TrainConfig, setting
from nershift.data.spans import Sentence
from nershift.encoders.learned_rates import LearnedRates
from nershift.heads.base import Head, head_from, start_from_best
from nershift.heads.start import RowStart, start_new_rows
from nershift.methods.metaner.step import MetaNEROptions, Vector, add_gradients, grad, only_used_rows
from nershift.model import Batch, TaggingModel
from nershift.training.optim import make_optimizer, scale_rates
from nershift.training.seeding import generator
from nershift.training.stage import Backward, MixedStage


@dataclass(frozen=True)
class EpisodeOptions(MetaNEROptions):
    """The options of Algorithm 1, and those of the episodes that may take its place."""

    episodes: bool = setting(
        False,
        "Train by episodes that match deployment (beyond the paper) in place of Algorithm 1, whose options have no "
        "effect then.",
    )
    support_min: int = setting(5, "Episodes: fewest sentences of a support.", low=1)
    support_max: int = setting(50, "Episodes: most sentences of a support; at most half of a source.", low=1)
    inner_updates: int = setting(15, "Episodes: updates on the support.", low=1)
    episode_batch: int = setting(4, "Episodes: sentences per inner update.", low=1)
    query: int = setting(32, "Episodes: sentences that the adapted model is judged by.", low=1)
    episode_lr: float | None = setting(
        None, "Episodes: learning rate of the inner updates; null: the rates of `train`, as in deployment.", low=0
    )
    outer: Literal["maml", "reptile"] = setting(
        "maml", "Episodes: what θ learns from. maml: the query loss after the updates. reptile: where they led."
    )
    learned_rates: bool = setting(
        False, "Episodes: also learn a factor on the learning rate of each layer, which the target's training uses."
    )
    keep_rows: float = setting(
        0.5,
        "Episodes: share of them whose head keeps rows of types that another source has too; in the others all rows "
        "are new.",
        low=0,
        high=1,
    )
    episode_weight: float = setting(1.0, "Episodes: weight of their gradient; 0: plain fine-tuning.", low=0)
    plain_weight: float = setting(1.0, "Episodes: weight of the plain batch that each step also learns.", low=0)


class EpisodeStage(MixedStage):
    """A step learns one plain batch, as fine-tuning does, and one episode.

    With several processes, each has its own episode of the same source; gradients are averaged.

    Args:
        inner: how the inner updates train: the settings of the target's stage.
        new_rows: how new rows of a head start.
    """

    def __init__(
        self, *args: Any, options: EpisodeOptions, inner: TrainConfig, new_rows: RowStart = "auto", **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.options, self.inner, self.new_rows = options, inner, new_rows
        if options.episode_lr is not None:
            self.inner = replace(inner, lr=options.episode_lr, encoder_lr=None, words_lr=None)
        self.rates = LearnedRates(self.model.encoder) if options.learned_rates else None
        if self.rates is not None:
            self.model.extras["learned_rates"] = self.rates

    @property
    def passes_per_step(self) -> int:
        """Forward and backward passes of a step: the inner updates are of ``episode_batch`` sentences each."""
        if not self.options.episode_weight:
            return 1
        return 1 + self.options.inner_updates + self.judges

    @property
    def judges(self) -> bool:
        """Is the query read?"""
        return self.options.outer == "maml" or self.options.learned_rates

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        """The plain batch; then the support batches of an episode in the order of the updates, and its query."""
        batches = super().draw(step, rank, world)
        episode = self.draw_episode(step, rank) if self.options.episode_weight else []
        return batches | {f"episode {number}": batch for number, batch in enumerate(episode)}

    def draw_episode(self, step: int, rank: int) -> list[Batch]:
        options = self.options
        rng = generator(self.seed, self.name, "episode", step)  # the same in all processes
        sampler = self.samplers[rng.choice(list(self.samplers))]
        size = rng.randint(options.support_min, options.support_max)
        rng = generator(self.seed, self.name, "episode", step, rank)
        support, query = split(sampler.sentences, size, options.query, rng)
        updates = in_passes(support, options.inner_updates, options.episode_batch, rng)
        return [sampler.as_labelled(chosen) for chosen in [*updates, query]]

    def gradients(self, batches: Mapping[str, Batch], backward: Backward) -> dict[str, Tensor]:
        plain, *episode = batches.values()
        loss = self.model(plain)
        backward(self.options.plain_weight * loss)
        logged = {"loss": loss.detach(), "passes": torch.full_like(loss.detach(), self.passes_per_step)}
        if episode:
            head = fresh_head(self.model, episode[:-1], self.options.keep_rows, self.new_rows)
            with only_used_rows(self.model.encoder, episode) as (*support, query):  # speed only
                logged |= self.play(head, support, query)
        return logged

    def play(self, head: Head, support: Sequence[Batch], query: Batch) -> dict[str, Tensor]:
        """Add the gradients of one episode; all weights of the model stay as they are."""
        episode = Episode(TaggingModel(self.model.encoder, {query.key: head}), self.inner, self.rates)
        episode.run(support, query if self.judges else None)
        share = self.options.episode_weight / self.config.accumulate
        back = [-move for move in episode.moves]
        add_gradients(episode.theta.values(), episode.slopes if self.options.outer == "maml" else back, share)
        if self.rates is not None:
            slope = self.rates.gradient(list(episode.theta), episode.slopes, episode.moves)
            add_gradients([self.rates.log], [slope], share)
        return episode.logged


class Episode:
    """Some updates on the support, which are then undone.

    Attributes:
        moves: θ' - θ, after :meth:`run`.
        slopes: ∇θ L_query(θ', φ'), after :meth:`run` with a query.
    """

    def __init__(self, model: TaggingModel, config: TrainConfig, rates: LearnedRates | None = None) -> None:
        self.model, self.config = model, config
        self.theta = {n: p for n, p in model.encoder.named_parameters() if p.requires_grad}
        self.optimizer = make_optimizer(config, model)
        if rates is not None:
            scale_rates(self.optimizer, rates.factors(model.encoder))
        self.moves, self.slopes = Vector(), Vector()
        self.logged: dict[str, Tensor] = {}

    def run(self, support: Sequence[Batch], query: Batch | None) -> None:
        theta = list(self.theta.values())
        kept = [(p.detach().clone(), p.grad) for p in theta]  # the updates move the weights in place
        try:
            for batch in support:
                self.logged["support_loss"] = self.update(batch)
            if query is not None:
                loss = self.model(query)
                self.slopes = grad(loss, theta)
                self.logged["query_loss"] = loss.detach()
            self.moves = [p.detach() - start for p, (start, _) in zip(theta, kept, strict=True)]
        finally:
            with torch.no_grad():
                for p, (start, gradient) in zip(theta, kept, strict=True):
                    p.copy_(start)
                    p.grad = gradient

    def update(self, batch: Batch) -> Tensor:
        """One update, as the training loop makes it."""
        self.optimizer.zero_grad()
        loss: Tensor = self.model(batch)
        loss.backward()
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.grad is not None], self.config.clip)
        self.optimizer.step()
        return loss.detach()


def fresh_head(model: TaggingModel, support: Sequence[Batch], keep_rows: float, new_rows: RowStart) -> Head:
    """A new head for the types of the support, started as a target's. The source's own head has no part in it.

    Args:
        keep_rows: probability that it keeps rows of types that another source has too. (Where all sources share one
            head, it is that head whose rows are kept.)
        new_rows: how the others start.
    """
    key = support[0].key
    head = head_from(model.head(key).describe(), model.encoder.size).to(next(model.parameters()))
    if torch.rand(()) < keep_rows:
        others = [other for name, other in model.named_heads() if name != key or len(model.heads) == 1]
        start_from_best(head, others, {})
    sentences = list(dict.fromkeys(sentence for batch in support for sentence in batch.sentences))
    start_new_rows(head, model.encoder, sentences, new_rows)
    return head


def split(sentences: Sequence[Sentence], size: int, query: int, rng: Random) -> tuple[list[int], list[int]]:
    """Places of ``size`` sentences and of up to ``query`` others; half of the former have entities, if possible.

    The support takes at most half of the sentences. (Of one sentence alone, both are made.)
    """
    size = max(1, min(size, len(sentences) // 2))
    order = list(range(len(sentences)))
    rng.shuffle(order)
    labelled = [i for i in order if sentences[i].spans]
    first = set(labelled[: -(-size // 2)])
    order.sort(key=lambda i: i not in first)
    return order[:size], order[size : size + query] or order


def in_passes(support: Sequence[int], updates: int, batch_size: int, rng: Random) -> list[list[int]]:
    """Batches for some updates that pass over the support again and again, each time in another order."""
    batches: list[list[int]] = []
    while len(batches) < updates:
        order = rng.sample(support, len(support))
        batches += [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    return batches[:updates]
