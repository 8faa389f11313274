"""The routes of annotators: labels, agreement, and the queue of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from fastapi import FastAPI, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from nershift.data.formats import FORMATS
from nershift.server import annotation_schemas as schemas
from nershift.server.annotations import agreement_csv
from nershift.server.refusals import Refusal, too_busy
from nershift.server.service import Service
from nershift.server.uploads import describe

FilePath = Annotated[str, Path(pattern=schemas.FILE)]
Name = Annotated[schemas.AnnotatorName, Query()]
_JSON = "application/json"


def add_annotation(app: FastAPI, service: Service, refusals: Callable[..., dict[int | str, dict[str, Any]]]) -> None:
    """``refusals(*statuses)`` describes answers other than success."""
    _add_labels(app, service, refusals)
    _add_files(app, service, refusals)


def _add_labels(app: FastAPI, service: Service, refusals: Callable[..., Any]) -> None:
    @app.post("/labels", response_model=schemas.SyncAnswer, responses=refusals(413, 415, 422, 507))
    async def labels(body: schemas.SyncRequest) -> Response:
        """Keep labels of an annotator, and types; answer with those that the sender does not have."""

        def sync() -> bytes:
            records = [record.record() for record in body.records]
            types = [type.model_dump() for type in body.types]
            return service.annotations.sync(body.annotator, body.id, (body.at, body.types_at), records, types)

        return Response(await run_in_threadpool(sync), media_type=_JSON)

    @app.get("/annotators", responses=refusals())
    async def annotators() -> schemas.AnnotatorsAnswer:
        rows = await run_in_threadpool(service.annotations.annotators)
        return schemas.AnnotatorsAnswer.model_validate({"annotators": rows})

    table: Any = {200: {"content": {"text/csv": {}}}}

    @app.get("/agreement", response_model=schemas.AgreementAnswer, responses={**refusals(404, 422), **table})
    async def agreement(one: Name, other: Name, form: Literal["json", "csv"] = "json") -> Any:
        """How two annotators agree on the sentences that both accepted: span F1, and kappa of tokens, by type."""
        found = await service.aside.run(service.annotations.agreement, one, other)
        if form == "json":
            return found
        headers = {"content-disposition": 'attachment; filename="agreement.csv"'}
        return Response(agreement_csv(found), media_type="text/csv; charset=utf-8", headers=headers)


def _add_files(app: FastAPI, service: Service, refusals: Callable[..., Any]) -> None:
    uploads, annotations = service.uploads, service.annotations
    reading = anyio.CapacityLimiter(1)  # those who wait take no thread

    @app.get("/files", responses=refusals(422))
    async def files(annotator: Annotated[schemas.AnnotatorName | None, Query()] = None) -> schemas.FilesAnswer:
        """The queue, with how many sentences of each file an annotator has accepted."""

        def listed() -> dict[str, Any]:
            accepted = frozenset(map(hash, annotations.accepted(annotator) if annotator else ()))
            most = service.limits.body_bytes * 3 // 4 - 2_000  # base64 takes four letters for three bytes
            rows = [describe(file, accepted) for file in uploads.list()]
            return {"files": rows, "formats": sorted(FORMATS), "upload_bytes": most}

        return schemas.FilesAnswer.model_validate(await run_in_threadpool(listed))

    @app.post("/files", status_code=201, responses=refusals(413, 415, 422, 429, 507))
    async def upload(body: schemas.UploadRequest) -> schemas.FileAnswer:
        """Add a file to the queue, in any format that can be read."""
        if body.format is not None and body.format not in FORMATS:
            raise Refusal(422, "format", "there is no such format", f"choose one of: {', '.join(sorted(FORMATS))}")
        parts = [(part.name, part.content) for part in body.files]
        waiting = reading.statistics().tasks_waiting
        if waiting >= service.limits.reads:
            raise too_busy(waiting)
        made = await anyio.to_thread.run_sync(uploads.add, parts, body.format, limiter=reading)
        return schemas.FileAnswer.model_validate(describe(made, frozenset()))

    @app.get("/files/{file}", response_class=Response, responses={**refusals(404, 422), 200: {"content": {_JSON: {}}}})
    async def content(file: FilePath) -> Response:
        """The sentences of a file: tokens, what stands before each, and entities where the file has any."""
        return Response(await run_in_threadpool(uploads.content, file), media_type=_JSON)

    @app.delete("/files/{file}", status_code=204, responses=refusals(404, 422))
    async def remove(file: FilePath) -> Response:
        """Take a file out of the queue; the labels of its sentences stay."""
        await run_in_threadpool(uploads.remove, file)
        return Response(status_code=204)
