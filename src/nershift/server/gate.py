"""What every request passes first: a check of the sender, a limit on the body, and a timer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from nershift.server.limits import Limits
from nershift.server.metrics import Metrics
from nershift.server.refusals import Refusal, too_slow
from nershift.server.security import PAGE_POLICY, Guard

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", PAGE_POLICY.encode()),
]


class Gate:
    """ASGI middleware: checks the sender, reads the body up to a limit, turns refusals into JSON, counts.

    The body is read here, whole and bounded, so that nothing behind the gate ever sees more of it.
    """

    def __init__(self, app: App, *, guard: Guard, limits: Limits, metrics: Metrics) -> None:
        self.app, self.guard, self.limits, self.metrics = app, guard, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            self.guard.check(scope["method"], scope["path"], scope["headers"])
            body = await self._body(dict(scope["headers"]), receive)
            await self.app(scope, _replay(body, receive), sending)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sending)
        finally:
            self.metrics.answered(_route(scope), status, time.perf_counter() - began)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.limits.body_bytes:
            raise self._too_large()
        parts, size = [], 0
        with anyio.move_on_after(self.limits.seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return b""
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                if size > self.limits.body_bytes:
                    raise self._too_large()
                if not message.get("more_body"):
                    return b"".join(parts)
        raise too_slow(self.limits.seconds)

    def _too_large(self) -> Refusal:
        limit = self.limits.body_bytes
        return Refusal(413, "too_large", f"the body is larger than {limit} bytes", "send less at once")


def _replay(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()  # later calls notice a client that disconnects

    return replay


def _route(scope: Scope) -> str:
    """The pattern of the route, not the path: one metric per route, however many paths are requested."""
    return str(getattr(scope.get("route"), "path", "other"))
