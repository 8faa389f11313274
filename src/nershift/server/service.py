"""What the server does, apart from HTTP: versions, the tagging queue, labels, files and adaptations in one object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from nershift.data.spans import Sentence
from nershift.data.token_bound import most_tokens
from nershift.server.annotations import Annotations
from nershift.server.aside import Aside
from nershift.server.batcher import Batcher
from nershift.server.bodies import Bodies
from nershift.server.inference import Reading, Tagged, answer, tag, to_json
from nershift.server.jobs import Jobs
from nershift.server.limits import Limits
from nershift.server.metrics import Metrics
from nershift.server.uploads import Uploads
from nershift.server.versions import Store
from nershift.training.processes import threads_for


class Service:
    """Opens the store and starts the tagging thread; :meth:`close` ends both.

    Args:
        model: the folder of a run, or of a pre-training.
        store: folder of the versions; by default beside the model: ``runs/clinic`` → ``runs/clinic.versions``.
        threads: per tagging batch; 0 means one for recurrent taggers, which gain nothing from more.
        verify: compare the hashes of the files of models with their manifests.
    """

    def __init__(
        self,
        model: Path,
        store: Path | None = None,
        limits: Limits | None = None,
        threads: int = 0,
        verify: bool = True,
    ) -> None:
        self.limits = limits or Limits()
        model = model.resolve()
        self.store = Store(store or model.with_name(model.name + ".versions"), model, self.limits.loaded, verify)
        tagger = self.store.tagger(self.store.current)
        torch.set_num_threads(threads or (threads_for(tagger.model.encoder.config) if tagger else 1))
        self.metrics = Metrics()
        self.aside = Aside()
        self.bodies = Bodies(self.limits)
        self.batcher = Batcher(self._tag, self.limits, self.metrics.batch)
        self.annotations = Annotations(self.store.folder / "labels")
        self.uploads = Uploads(self.store.folder / "files", self.limits)
        self.jobs = Jobs(self.store, self.limits, ended=self.metrics.adapted)
        self.metrics.watch(lambda: len(self.batcher), lambda: len(self.store))

    def stop(self) -> None:
        """Refuse what waits, and what comes, so that every client has its answer before :meth:`close`."""
        self.bodies.stop()
        self.uploads.stop()
        self.batcher.stop()

    def close(self) -> None:
        self.jobs.close()
        self.batcher.close()
        self.store.close()

    def _tag(self, version: str, sentences: Sequence[Sentence]) -> list[Tagged]:
        return tag(self.store.tagger(version), sentences)

    async def tag(
        self,
        texts: list[str] | None,
        tokens: list[list[str]] | None,
        version: str | None = None,
        min_confidence: float = 0.0,
    ) -> bytes:
        """The JSON answer to a request of texts or of tokenised sentences."""
        name = self.store.find(version).name

        def finish(readings: list[Reading], tagged: list[list[Tagged]]) -> bytes:
            results = (answer(r, t, min_confidence) for r, t in zip(readings, tagged, strict=True))
            return f'{{"model": "{name}", "results": [{", ".join(map(to_json, results))}]}}'.encode()

        content: bytes = await self._submit(name, texts, tokens, finish)
        return content

    async def suggest(self, texts: list[str] | None, tokens: list[list[str]] | None) -> bytes:
        """JSON: sentences by uncertainty, the least certain first; they are numbered through all texts."""

        def finish(readings: list[Reading], tagged: list[list[Tagged]]) -> bytes:
            scores = [round(t.uncertainty, 4) for row in tagged for t in row]
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            return to_json({"order": order, "scores": scores}).encode()

        content: bytes = await self._submit(self.store.current, texts, tokens, finish)
        return content

    async def _submit(self, version: str, texts: list[str] | None, tokens: list[list[str]] | None, finish: Any) -> Any:
        def read() -> list[Reading]:
            if texts is not None:
                return [Reading.of_text(text) for text in texts]
            return [Reading.of_tokens(row) for row in tokens or ()]

        bound = sum(map(len, texts if texts is not None else tokens or ()))  # a token has a character at least
        if texts is not None and bound > self.limits.tokens:
            bound = await self.aside.run(lambda: sum(map(most_tokens, texts)))
        return await self.batcher.submit(version, read, finish, bound)
