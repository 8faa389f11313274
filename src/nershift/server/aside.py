"""Reading large requests beside the event loop, one at a time, so that the loop never waits for many of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, get_type_hints

import anyio
import anyio.to_thread
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

T = TypeVar("T")
_LARGE = 20_000  # bytes; reading less takes no longer than handing it over


class Aside:
    """A thread for what would hold up the event loop.

    One at a time: threads that compute take turns, and a loop that needs a moment waits for the turns of all.
    """

    def __init__(self) -> None:
        self._turn = anyio.CapacityLimiter(1)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        return await anyio.to_thread.run_sync(work, *given, limiter=self._turn)


def route_class(aside: Aside) -> type[APIRoute]:
    """FastAPI's route, but large bodies are parsed and checked ``aside``."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()
            body = get_type_hints(self.endpoint, include_extras=True).get("body")
            if body is None:
                return handle
            reader = TypeAdapter[Any](body)

            async def handle_aside(request: Request) -> Response:
                content = await request.body()
                if len(content) > _LARGE:
                    request = _Read(request, await aside.run(_read, reader, content))
                return await handle(request)

            return handle_aside

    return Route


class _Read(Request):
    """A request whose body is an object already, which FastAPI takes as it is."""

    def __init__(self, request: Request, content: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._body, self._content = b"{}", content  # FastAPI only looks whether there is a body

    async def json(self) -> Any:
        return self._content


def _read(reader: TypeAdapter[Any], content: bytes) -> Any:
    try:
        value = json.loads(content)
        return reader.validate_python(value, from_attributes=True) if isinstance(value, dict) else value
    except ValidationError as error:
        raise RequestValidationError([{**e, "loc": ("body", *e["loc"])} for e in error.errors()]) from None
    except json.JSONDecodeError as error:
        at = {
            "type": "json_invalid",
            "loc": ("body", error.pos),
            "msg": "JSON decode error",
            "ctx": {"error": error.msg},
        }
        raise RequestValidationError([at]) from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, or deeper than anything sensible
        raise HTTPException(400) from None
