"""Train on the sources only and tag the target: shows the cost of domain shift."""

from __future__ import annotations

from nershift.errors import SetupError
from nershift.methods.base import TARGET, Method, register
from nershift.methods.presets import PRESETS
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


class SharedHead(Method):
    """A method with one head for all sources, which knows every type of the target."""

    min_sources = 1

    def check(self) -> None:
        super().check()
        if self.setup.pretrained:
            return  # ZeroShot.finish checks the heads of the folder
        if not self.homogeneous:
            spaces = "; ".join(f"{c.name}: {', '.join(c.types)}" for c in self.setup.sources)
            raise SetupError(
                f"method '{self.name}' was given sources with different entity types ({spaces})",
                place="--source",
                expected="one set of types in all sources, since they share one head",
                fix="rename or drop types with a label map, or use a method that trains on the target",
            )
        self._check_types(self.source_space(self.setup.sources[0]).types)

    def _check_types(self, known: tuple[str, ...]) -> None:
        wanted = self.target_space.types if self.setup.target is not None else ()
        missing = [t for t in wanted if t not in known]
        if missing:
            raise SetupError(
                f"method '{self.name}' was given a target with types that its sources lack: {', '.join(missing)}",
                place="--target",
                expected=f"types among those of the sources: {', '.join(known)}",
                fix="rename them with a label map, or use a method that trains on the target",
            )


class ZeroShot(SharedHead):
    """A method without target labels: the head of the sources tags the target, with the target's types alone."""

    uses_target_labels = False

    def finish(self, model: TaggingModel) -> TaggingModel:
        heads = [d for _, d in model.named_heads()]
        if len(heads) > 1:
            raise SetupError(
                f"method '{self.name}' was given a model with {len(heads)} heads, one per source",
                place="--from",
                expected="a model whose sources all had one set of entity types",
                fix="use a method that trains on the target",
            )
        self._check_types(heads[0].types)
        self.restrict(heads[0])
        return TaggingModel(model.encoder, {TARGET: heads[0]}).to(model.device)


@register("source_only", "d_shift")
class SourceOnly(ZeroShot):
    summary = "trained on the sources, then tags the target as it is (no target labels)"
    paper = "MetaNER §5.1.1 (D-Shift)"
    presets = PRESETS

    def pretrain(self) -> TrainingStage:
        return self.source_stage()
