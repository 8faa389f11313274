"""What every request passes first: a check of the sender, a limit on the body, and a timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from nershift.server.bodies import Bodies, Receive
from nershift.server.guesses import Guesses
from nershift.server.metrics import Metrics
from nershift.server.refusals import Refusal, shutting_down
from nershift.server.security import PAGE_POLICY, Guard

Scope = MutableMapping[str, Any]
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

    def __init__(self, app: App, *, guard: Guard, bodies: Bodies, metrics: Metrics, guesses: Guesses) -> None:
        self.app, self.guard, self.bodies, self.metrics, self.guesses = app, guard, bodies, metrics, guesses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        started = left = False

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            await self._check(scope)
            async with self.bodies.read(dict(scope["headers"]), receive) as body:
                left = body is None
                if body is not None:
                    await self.app(scope, _replay(body, receive), sending)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sending)
        except asyncio.CancelledError:  # the server stops, and has waited for this answer as long as it does
            if not started:
                await shutting_down().response()(scope, receive, sending)
        finally:
            if not left:
                self.metrics.answered(_route(scope), status, time.perf_counter() - began)

    async def _check(self, scope: Scope) -> None:
        """Raises a :class:`Refusal` before anything of the body is read; whoever guesses tokens is slowed down."""
        if not self.guard.has_token(scope["path"], scope["headers"]):
            self.guard.check(scope["method"], scope["path"], scope["headers"])
            return
        client = tuple(scope.get("client") or ("", 0))
        await self.guesses.wait(client)
        try:
            self.guard.check(scope["method"], scope["path"], scope["headers"])
        except Refusal as refusal:
            if refusal.code == "token":
                self.guesses.wrong(client)
            raise
        self.guesses.right(client)


def _replay(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()  # later calls notice a client that disconnects

    return replay


def _route(scope: Scope) -> str:
    """The pattern of the route, not the path: one metric per route, however many paths are requested."""
    return str(getattr(scope.get("route"), "path", "other"))
