"""What the server does, apart from HTTP: versions, the tagging queue and adaptations in one object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from nershift.server.batcher import Batcher
from nershift.server.inference import Reading, Tagged, answer, tag
from nershift.server.jobs import Jobs
from nershift.server.learning import threads_for
from nershift.server.limits import Limits
from nershift.server.metrics import Metrics
from nershift.server.refusals import Refusal
from nershift.server.versions import Store


class Service:
    """Opens the store and starts the tagging thread; :meth:`close` ends both.

    Args:
        model: the folder of a run, or of a pre-training.
        store: folder of the versions; by default beside the model: ``runs/clinic`` → ``runs/clinic.versions``.
        threads: per tagging batch; 0 means one for recurrent taggers, which gain nothing from more.
    """

    def __init__(self, model: Path, store: Path | None = None, limits: Limits | None = None, threads: int = 0) -> None:
        self.limits = limits or Limits()
        model = model.resolve()
        self.store = Store(store or model.with_name(model.name + ".versions"), model, self.limits.loaded)
        tagger = self.store.tagger(self.store.current)
        torch.set_num_threads(threads or (threads_for(tagger.model) if tagger else 1))
        self.metrics = Metrics()
        self.batcher = Batcher(self._tag, self.limits, self.metrics.batch)
        self.jobs = Jobs(self.store, self.limits, ended=self.metrics.adapted)
        self.metrics.watch(lambda: len(self.batcher), lambda: len(self.store))

    def close(self) -> None:
        self.jobs.close()
        self.batcher.close()
        self.store.close()

    def _tag(self, version: str, readings: Sequence[Reading]) -> list[list[Tagged]]:
        """Tag the sentences of all readings in one batch; a list for each reading."""
        tagged = iter(tag(self.store.tagger(version), [s for r in readings for s in r.sentences]))
        return [list(islice(tagged, len(r.sentences))) for r in readings]

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
            results = [answer(r, t, min_confidence) for r, t in zip(readings, tagged, strict=True)]
            return json.dumps({"model": name, "results": results}, ensure_ascii=False).encode()

        content: bytes = await self._submit(name, texts, tokens, finish)
        return content

    async def suggest(self, texts: list[str] | None, tokens: list[list[str]] | None) -> dict[str, Any]:
        """Sentences by uncertainty, the least certain first; they are numbered through all texts."""

        def finish(readings: list[Reading], tagged: list[list[Tagged]]) -> dict[str, Any]:
            scores = [round(t.uncertainty, 4) for row in tagged for t in row]
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            return {"order": order, "scores": scores}

        ranking: dict[str, Any] = await self._submit(self.store.current, texts, tokens, finish)
        return ranking

    async def _submit(self, version: str, texts: list[str] | None, tokens: list[list[str]] | None, finish: Any) -> Any:
        if texts is not None:
            size = sum(len(text) for text in texts)
        else:
            size = sum(len(token) + 1 for row in tokens or () for token in row)
        if size > self.limits.characters:
            message = f"{size} characters in one request, at most {self.limits.characters} are allowed"
            raise Refusal(422, "too_long", message, "send fewer texts at once")

        def read() -> list[Reading]:
            if texts is not None:
                return [Reading.of_text(text) for text in texts]
            return [Reading.of_tokens(row) for row in tokens or ()]

        return await self.batcher.submit(version, read, finish, size)
