"""A method of your own in one file: it trains on the source that shares most types with the target, then on the target.

python examples/method_of_your_own.py [OUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import nershift
from nershift.methods.base import Method
from nershift.model import TaggingModel
from nershift.training.stage import TrainingStage


@nershift.register_method("nearest_source")
class NearestSource(Method):
    summary = "the source that shares most types with the target, then the target"
    min_sources = 1

    def pretrain(self) -> TrainingStage:
        wanted = set(self.setup.types)
        nearest = max(self.setup.sources, key=lambda source: len(wanted & set(source.types)))
        print(f"the nearest source is {nearest.name}: {', '.join(nearest.types)}")
        model, config = self.source_model(), self.config.pretrain
        samplers = {nearest.name: self.source_samplers(model, config)[nearest.name]}
        dev = [(key, sentences) for key, sentences in self.source_dev() if key == self.source_keys()[nearest.name]]
        return TrainingStage("pretrain", model, config, samplers, self.config.seed, dev)

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)


def main(out: Path) -> None:
    target = nershift.builtin_corpus("travel")
    sources = [nershift.builtin_corpus(name) for name in ("clinic", "news")]
    config = {"pretrain": {"updates": 200}, "train": {"updates": 150}}
    run = nershift.transfer(
        "nearest_source", target, sources, shots=40, out=out, config=config, quiet=True, overwrite=True
    )
    print(f"F1 {100 * run.f1:.1f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "runs/nearest-source"))
