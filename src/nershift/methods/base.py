"""The contract of a method: how source knowledge reaches the target, in one stage of training or two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nershift.config import Config, TrainConfig, build, merge
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelMapping, LabelSpace, check_mapping
from nershift.data.spans import Sentence, in_parts
from nershift.encoders.base import ENCODERS, make_encoder
from nershift.errors import ConfigError, SetupError
from nershift.heads.base import HEADS, Head, how_to_overlap, make_head, start_from_best
from nershift.heads.start import RowStart, in_words, start_new_rows
from nershift.methods.adapter import SentenceAdapter
from nershift.methods.presets import DEFAULT, DEFAULT_BY_ENCODER
from nershift.model import TaggingModel
from nershift.registry import Registry
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage

TARGET = "target"  # the key of the target's head
METHODS = Registry["type[Method]"]("method", "nershift.methods", "nershift.methods", attribute="name")
register = METHODS.register


@dataclass(frozen=True)
class NoOptions:
    """A method without settings of its own."""


@dataclass(frozen=True)
class Setup:
    """What a method works on. ``target`` already holds the labelled subset the run may use as its train split.

    ``types`` are the entity types of the whole target corpus: what an annotator knows before labelling.
    Neither ``raw``, nor a raw split, nor ``unlabelled`` (the target's training sentences whose labels the run may not
    learn) has a sentence of the target's dev and test splits; ``left_out`` says how many they had, by name.
    """

    config: Config
    options: Any = field(default_factory=NoOptions)
    target: Corpus | None = None
    types: tuple[str, ...] = ()
    sources: tuple[Corpus, ...] = ()
    raw: Mapping[str, Sequence[Sentence]] = field(default_factory=dict)
    pretrained: bool = False  # the run starts from a folder, not from sources
    unlabelled: Sequence[Sentence] = ()
    scored: frozenset[str] = frozenset()  # normalised text of the target's dev and test sentences
    left_out: Mapping[str, int] = field(default_factory=dict)


class Method:
    """Subclasses say what is trained in :meth:`pretrain` (sources only) and :meth:`train` (with the target).

    Either may return None: a zero-shot method has no :meth:`train`, a joint method no :meth:`pretrain`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str] = ""
    Options: ClassVar[type] = NoOptions
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": DEFAULT, "paper": {}}
    by_encoder: ClassVar[Mapping[str, Mapping[str, Any]]] = DEFAULT_BY_ENCODER  # what the default changes for others
    min_sources: ClassVar[int] = 0
    pools_sources: ClassVar[bool] = False  # does the stage `train` mix the sources' sentences with the target's?
    keeps_sources: ClassVar[bool] = False  # does it need them even where the run starts from a folder?
    uses_target_labels: ClassVar[bool] = True
    can_do_without: ClassVar[bool] = False  # uses target labels if there are any

    def __init__(self, setup: Setup) -> None:
        self.setup, self.config, self.options = setup, setup.config, setup.options

    @classmethod
    def preset(cls, name: str, encoder: str | None = None) -> Mapping[str, Any]:
        """The settings of a preset; the default one depends on the kind of encoder that the user asks for."""
        values = cls.presets[name if name in cls.presets else "paper"]
        own = values.get("encoder", {}).get("kind", "recurrent")
        if name != "default" or encoder in (None, own):
            return values
        return merge(values, cls.by_encoder.get(str(encoder), {}))

    @property
    def selected_by(self) -> str:
        """What chose the weights, in words, where that is no dev split of the target as usual."""
        return ""

    # -- what a method defines ---------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse impossible set-ups before the first batch; extend, and call this one."""
        sources = self.setup.sources
        if len(sources) < self.min_sources and not self.setup.pretrained:
            raise SetupError(
                f"method '{self.name}' was given {len(sources)} source corpora",
                place="--source",
                expected=f"at least {self.min_sources}",
                fix="name more corpora after --source, or use another method (`nershift methods`)",
            )
        names = [c.name for c in sources]
        if len(set(names)) < len(names):
            raise SetupError(f"source names repeat: {', '.join(names)}", place="--source", expected="distinct names")
        if self.config.head.same and not self.config.head.from_source:
            raise ConfigError(
                "types that mean the same were given, but the target's head starts with new rows",
                place="config.head.same",
                expected="head.from_source true",
                fix="--set head.from_source=true, or omit --same",
            )
        self._check_overlaps()
        self._check_new_rows()
        self._check_moves()
        if self.setup.target is not None and self.uses_target_labels and not self.can_do_without:
            self._check_labels()
        if self.setup.target is not None and self.learns_labels and not self.target_space.types:
            raise _no_types("target", self.target.name)
        if sources and self.setup.target is not None:
            known = sorted({t for c in sources for t in c.types})
            check_mapping(self.config.head.same, self.target_space.types, known)

    def _check_overlaps(self) -> None:
        """Entities that overlap need a head that can learn them."""
        target = [self.setup.target] if self.setup.target is not None else []
        nested = [c.name for c in (*self.setup.sources, *target) if c.nested]
        cls = HEADS[self.config.head.kind]
        if nested and not cls.allows_overlaps(build(cls.Settings, self.config.head.options, "config.head.options")):
            raise SetupError(
                f"entities overlap in {', '.join(nested)}, which head '{self.config.head.kind}' cannot learn",
                place="config.head.kind",
                expected="a head for overlapping entities",
                fix=f"{how_to_overlap()}, or read the corpus without --nested",
            )

    def _check_new_rows(self) -> None:
        head = self.config.head
        can = HEADS[head.kind].row_starts
        if head.new_rows not in ("auto", *can):
            raise ConfigError(
                f"rows of head '{head.kind}' cannot start from {head.new_rows}",
                place="config.head.new_rows",
                expected=" | ".join(("auto", *can)),
            )

    def _check_labels(self) -> None:
        if not any(len(s) for s in self.target.train):
            raise SetupError(
                f"no sentences to train on: the train split of target '{self.target.name}' is empty",
                place="--target",
                expected=f"labelled sentences, since method '{self.name}' learns from them",
                fix="ask for more than 0 (--shots, --ratio), hold out less of a small corpus (--hold-out), or use a "
                "method that does without target labels (source_only)",
            )

    def _check_moves(self) -> None:
        encoder = self.config.encoder
        thaw = ENCODERS[encoder.kind].frozen_words(encoder)
        for block in ("pretrain", "train"):
            if thaw and getattr(self.config, block).fgm_epsilon:
                raise ConfigError(
                    "word vectors are to be moved, but they are frozen",
                    place=f"config.{block}.fgm_epsilon",
                    expected="0",
                    fix=f"omit {block}.fgm_epsilon, or --set encoder.{thaw}",
                )

    def need_recurrent(self, why: str) -> None:
        """Refuse any encoder that is not recurrent."""
        if self.config.encoder.kind != "recurrent":
            found = f"found '{self.config.encoder.kind}'"
            raise ConfigError(found, place="encoder.kind", expected=f"recurrent: {why}")

    def pretrain(self) -> TrainingStage | None:
        """Learn from the sources, without a look at the target."""
        return None

    def teach(self, start: TaggingModel | None) -> TrainingStage | None:
        """Make the model that :meth:`train` starts from, where that takes a stage of its own after the sources."""
        return None

    def train(self, start: TaggingModel | None) -> TrainingStage | None:
        """Learn the target, from ``start`` if there was a pre-training; the phase's model has a ``target`` head."""
        return None

    def finish(self, model: TaggingModel) -> TaggingModel:
        """The model to deploy, with a head under ``target``."""
        return model

    def run_notes(self, model: TaggingModel) -> list[str]:
        """Sentences on what the user may not know of the finished model; they stand in the report."""
        head, notes = model.head(TARGET), list[str]()
        if head.kept_rows:
            kept, new = LabelMapping(head.kept_rows).describe(), in_words(head)
            notes.append(f"The target head kept the source's rows for {kept}{'; ' * bool(new)}{new}.")
        if self.setup.target is not None and (lost := head.out_of_reach(self.target.splits.get("train", ()))):
            notes.append(lost)
        return notes

    def measures(self, model: TaggingModel) -> dict[str, Any]:
        """Further entries of ``metrics.json`` about the finished model, beside its scores."""
        return {}

    def save_artifacts(self, model: TaggingModel, folder: Path) -> None:
        """Write further files into the run's folder, from the trained model that :meth:`finish` also gets."""

    def adapter(self, model: TaggingModel, kept: SentenceAdapter | None = None) -> SentenceAdapter | None:
        """What adapts the tagger to each sentence; ``kept`` is that of the folder which the run started from."""
        return None

    # -- parts that methods share ------------------------------------------------------------------------

    @property
    def target(self) -> Corpus:
        if self.setup.target is None:
            raise SetupError(f"method '{self.name}' needs a target corpus", place="--target")
        return self.setup.target

    @property
    def uses_sources(self) -> bool:
        """Do the source corpora, where there are any, have a part in the run?"""
        return True

    @property
    def learns_labels(self) -> bool:
        """Does the run learn labels of the target? If not, those of its dev split are not used either."""
        return self.uses_target_labels and bool(self.target.splits.get("train"))

    @property
    def target_space(self) -> LabelSpace:
        return LabelSpace.of(self.setup.types or self.target.types, self.config.head.scheme)

    def source_space(self, corpus: Corpus) -> LabelSpace:
        return corpus.label_space(self.config.head.scheme)

    @property
    def homogeneous(self) -> bool:
        """Do all source corpora share one label space?"""
        return len({self.source_space(c) for c in self.setup.sources}) == 1

    def source_keys(self) -> dict[str, str]:
        """Corpus name → head key: one shared key where label spaces agree, else one a corpus."""
        return {c.name: "shared" if self.homogeneous else c.name for c in self.setup.sources}

    def new_head(self, space: LabelSpace, size: int, key: str) -> Head:
        seed_torch(self.config.seed, "decoder", key)
        return make_head(self.config.head.kind, space, size, self.config.head.options)

    def restrict(self, head: Head) -> None:
        """Let a head that knows more types than the target has predict the target's alone, where these are known."""
        if self.setup.types:
            head.restrict(self.setup.types)

    def new_model(self, sentences: Iterable[Sentence], spaces: Mapping[str, LabelSpace]) -> TaggingModel:
        seed_torch(self.config.seed, "encoder")
        encoder = make_encoder(self.config.encoder, sentences)
        return TaggingModel(encoder, {k: self.new_head(s, encoder.size, k) for k, s in spaces.items()})

    def source_model(self) -> TaggingModel:
        """A fresh model with heads for the sources."""
        keys = self.source_keys()
        spaces = {keys[c.name]: self.source_space(c) for c in self.setup.sources}
        return self.new_model([s for c in self.setup.sources for s in c.train], spaces)

    def sampler(
        self, model: TaggingModel, key: str, sentences: Sequence[Sentence], config: TrainConfig
    ) -> BatchSampler:
        if config.max_tokens:
            sentences = [part for s in sentences for part in in_parts(s, config.max_tokens)]
        share = config.mention_replacement
        return BatchSampler(model, key, sentences, config.batch_size, self.config.seed, mention_replacement=share)

    def source_samplers(self, model: TaggingModel, config: TrainConfig) -> dict[str, BatchSampler]:
        keys = self.source_keys()
        return {c.name: self.sampler(model, keys[c.name], labels_of(c), config) for c in self.setup.sources}

    def source_dev(self) -> list[tuple[str, Sequence[Sentence]]]:
        keys = self.source_keys()
        return [(keys[c.name], c.splits["dev"]) for c in self.setup.sources if "dev" in c.splits]

    def source_stage(self) -> TrainingStage:
        """Plain supervised training on the sources, one batch of one corpus a step, selected on their dev splits."""
        model, config = self.source_model(), self.config.pretrain
        samplers = self.source_samplers(model, config)
        return MixedStage("pretrain", model, config, samplers, self.config.seed, self.source_dev())

    def prepare_target(self, start: TaggingModel | None) -> TaggingModel:
        """``start`` made ready for the target (its words, a head for its types), or a fresh model.

        A head that fits the target's types is used as it is. Any other label set gets a new head, which keeps the rows
        of types that mean the same unless ``head.from_source`` is off. Other rows start as ``head.new_rows`` says.
        """
        how = self.config.head.new_rows
        if start is None:
            model = self.new_model(self.target.train, {TARGET: self.target_space})
            start_new_rows(model.head(TARGET), model.encoder, self.target.train, how, trained=False)
            return model
        same = self.config.head.same if self.config.head.from_source else None
        return move_to(start, self.target_space, self.target.train, self.new_head, self.config.seed, same, how)

    def target_stage(self, start: TaggingModel | None) -> TrainingStage:
        """Plain supervised training on the target's labels, selected on its dev split."""
        model = self.prepare_target(start)
        sampler = self.sampler(model, TARGET, self.target.train, self.config.train)
        dev = [(TARGET, self.target.splits.get("dev", ()))]
        return TrainingStage("train", model, self.config.train, {TARGET: sampler}, self.config.seed, dev)


def move_to(
    start: TaggingModel,
    space: LabelSpace,
    sentences: Sequence[Sentence],
    new_head: Callable[[LabelSpace, int, str], Head],
    seed: int,
    same: Mapping[str, str] | None,
    new_rows: RowStart = "auto",
) -> TaggingModel:
    """``start`` with the words of ``sentences`` and one head, for ``space``, under ``target``.

    Args:
        new_head: makes a head for a label set, a width of states and a key.
        same: target type → source type where names do not tell; None: keep no rows of other heads.
        new_rows: how the other rows start.
    """
    seed_torch(seed, "words", TARGET)
    start.encoder.learn_words(sorted({t for s in sentences for t in s.tokens}))
    known = [head for _, head in start.named_heads()]
    head = next((h for h in known if h.fits(space)), None)
    if head is None:
        head = new_head(space, start.encoder.size, TARGET)
        if same is not None:
            check_mapping(same, space.types, sorted({t for h in known for t in h.types}))
            start_from_best(head, known, same)
        start_new_rows(head, start.encoder, sentences, new_rows)
    head.restrict(space.types)  # what was left out of an earlier target may belong to this one
    return TaggingModel(start.encoder, {TARGET: head}).to(start.device)


def labels_of(source: Corpus) -> tuple[Sentence, ...]:
    """The training sentences of a source that has something to teach."""
    if not source.types:
        raise _no_types("source", source.name)
    return source.train


def _no_types(side: str, name: str) -> SetupError:
    return SetupError(
        f"{side} '{name}' has no entity types: all its tokens are O",
        place=f"--{side}",
        expected="labelled sentences with entities",
        fix="check its columns with `nershift check`, or take another corpus",
    )
