"""The routes. ``make_app(Service(Path("runs/clinic")))`` is an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, Path
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from nershift import __version__
from nershift.data.formats import writable
from nershift.errors import NershiftError
from nershift.server import invalid, schemas
from nershift.server.annotation_routes import add_annotation
from nershift.server.aside import route_class
from nershift.server.downloads import export, zip_folder
from nershift.server.gate import Gate
from nershift.server.guesses import Guesses
from nershift.server.labelled import labelled_sentences
from nershift.server.refusals import Refusal
from nershift.server.security import Guard
from nershift.server.service import Service

log = logging.getLogger(__name__)
STATIC = FilePath(__file__).parent / "static"
_ZIP = "application/zip"
_MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
VersionPath = Annotated[str, Path(pattern=schemas.VERSION)]
JobPath = Annotated[str, Path(pattern=schemas.JOB)]


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Answers other than success, for the OpenAPI document."""
    meanings = {
        401: "A token is needed.",
        403: "Not addressed to this machine, or from a page of another address.",
        404: "There is none of this name.",
        408: "The body did not arrive in time.",
        409: "No room for another version.",
        413: "The body is too large, or the text too long.",
        415: "The body is not announced as JSON.",
        422: "The request cannot be used as it is.",
        429: "Too many requests wait, or an adaptation is under way.",
        507: "The server's disk is full.",
        503: "No answer in time, too much to do, or the server is stopping.",
    }
    chosen = (401, 403, 408, 413, 503, *statuses)
    return {s: {"model": schemas.ErrorAnswer, "description": meanings[s]} for s in sorted(chosen)}


def make_app(service: Service, guard: Guard | None = None) -> FastAPI:
    """An application that owns ``service`` and closes it when it stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="nershift",
        version=__version__,
        description="A named entity recogniser that learns from corrections.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.router.route_class = route_class(service.aside)
    app.add_middleware(
        Gate, guard=guard or Guard(), bodies=service.bodies, metrics=service.metrics, guesses=Guesses(service.limits)
    )
    _add_errors(app)
    _add_page(app, service)
    _add_tagging(app, service)
    _add_versions(app, service)
    _add_adaptation(app, service)
    add_annotation(app, service, _refusals)
    return app


def _add_tagging(app: FastAPI, service: Service) -> None:
    @app.get("/health", responses=_refusals())
    async def health() -> schemas.Health:
        return schemas.Health(status="ok", version=service.store.current, queue=len(service.batcher))

    @app.get("/metrics", response_class=Response, responses=_refusals())
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.post("/tag", response_model=schemas.TagAnswer, responses=_refusals(404, 415, 422, 429))
    async def tag(body: schemas.TagRequest) -> Response:
        """Entities of texts or tokenised sentences: characters, tokens, type and score."""
        content = await service.tag(*_parts(body), body.model, body.min_confidence)
        return Response(content, media_type="application/json")

    @app.post("/suggest", response_model=schemas.SuggestAnswer, responses=_refusals(415, 422, 429))
    async def suggest(body: schemas.SuggestRequest) -> Response:
        """Which sentences to correct next: those the tagger is least certain of."""
        return Response(await service.suggest(*_parts(body)), media_type="application/json")


def _parts(body: Any) -> tuple[list[str] | None, list[list[str]] | None]:
    return getattr(body, "texts", None), getattr(body, "tokens", None)


def _add_versions(app: FastAPI, service: Service) -> None:
    @app.get("/models", responses=_refusals())
    async def models() -> schemas.ModelsAnswer:
        return schemas.ModelsAnswer(**service.store.describe())

    @app.post("/models/current", responses=_refusals(404, 415, 422, 507))
    async def choose(body: schemas.ChooseRequest) -> schemas.ModelsAnswer:
        """Let another version serve, an earlier one for example."""
        await run_in_threadpool(service.store.choose, body.name)
        return schemas.ModelsAnswer(**service.store.describe())

    @app.get(
        "/models/{name}/folder",
        response_class=FileResponse,
        responses={**_refusals(404, 422, 507), 200: {"content": {_ZIP: {}}}},
    )
    async def folder(name: VersionPath, labels: bool = False) -> FileResponse:
        """The tagger as a zip of its folder, for ``Tagger.load``; with the sentences it has learned if asked."""
        version = service.store.find(name).name
        path = await run_in_threadpool(zip_folder, service.store.path(version), version, labels)
        remove = BackgroundTask(path.unlink, missing_ok=True)
        return FileResponse(path, media_type=_ZIP, filename=f"nershift-{version}.zip", background=remove)


def _add_adaptation(app: FastAPI, service: Service) -> None:
    @app.post("/adapt", status_code=202, responses=_refusals(409, 415, 422, 429))
    async def adapt(body: schemas.AdaptRequest) -> schemas.JobStarted:
        """Learn from corrected sentences in the background; labels of the serving version are kept."""
        sentences = await service.aside.run(labelled_sentences, body.sentences)
        job = await run_in_threadpool(service.jobs.start, sentences, body.note, body.cross_validate)
        return schemas.JobStarted(job=job.name)

    @app.get("/jobs/{job}", responses=_refusals(404, 422))
    async def job(job: JobPath) -> schemas.JobAnswer:
        return schemas.JobAnswer(**service.jobs.find(job).describe())

    @app.delete("/jobs/{job}", responses=_refusals(404, 422))
    async def cancel(job: JobPath) -> schemas.JobAnswer:
        """Stop an adaptation; the version that serves goes on serving."""
        return schemas.JobAnswer(**service.jobs.cancel(job).describe())

    @app.get("/formats", responses=_refusals())
    async def formats() -> schemas.FormatsAnswer:
        return schemas.FormatsAnswer(formats=writable())

    files = ("text/plain", _ZIP, "application/octet-stream")
    answers = {**_refusals(415, 422, 507), 200: {"content": {media: {} for media in files}}}

    @app.post("/export", response_class=Response, responses=answers)
    async def export_labels(body: schemas.ExportRequest) -> Response:
        """Labelled sentences as a file; what needs several files comes as a zip."""
        sentences = await service.aside.run(labelled_sentences, body.sentences)
        content, media, name = await service.aside.run(export, sentences, body.format)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=media, headers=headers)


def _add_page(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _page_file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return _page_file(name)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(await service.aside.run(_reference, app))


@lru_cache(1)
def _reference(app: FastAPI) -> str:
    from nershift.server.reference import reference_page

    return reference_page(app.openapi())


def _page_file(name: str) -> Response:
    """A file of the page. The name is looked up in a listing and never becomes part of a path."""
    path = {path.name: path for path in STATIC.iterdir() if path.suffix in _MEDIA}.get(name)
    if path is None:
        raise HTTPException(404)
    return FileResponse(path, media_type=_MEDIA[path.suffix], headers={"cache-control": "no-cache"})


def _add_errors(app: FastAPI) -> None:
    """Every failure has the same body."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> JSONResponse:
        return error.response()

    @app.exception_handler(NershiftError)
    async def unusable(_: Request, error: NershiftError) -> JSONResponse:
        return Refusal.of(error).response()

    @app.exception_handler(RequestValidationError)
    async def misfit(_: Request, error: RequestValidationError) -> JSONResponse:
        return invalid.refusal(list(error.errors())).response()

    @app.exception_handler(HTTPException)
    async def missing(_: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # FastAPI's answer to a body in an unknown encoding
            return Refusal(422, "invalid", "the body is not JSON in UTF-8", "send JSON in UTF-8").response()
        status, fix = error.status_code, "see /docs for what there is"
        response = Refusal(status, f"http_{status}", str(error.detail), fix).response()
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=error)
        return Refusal(500, "internal", "the server made a mistake", "see its log").response()
