"""The bodies of requests: read whole before anything looks at them, within bounds for each and for all together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from nershift.server.limits import Limits
from nershift.server.refusals import Refusal, shutting_down

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(eq=False)
class _Arriving:
    """A body that is not whole yet."""

    scope: anyio.CancelScope
    refusal: Refusal
    size: int = 0
    parts: list[bytes] = field(default_factory=list)


class Bodies:
    """All bodies that are being read or answered.

    When they take more room than they may, the one that has been on its way for longest is refused: bodies that are
    sent in one go are never kept out by those that stop half-way.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._held, self._open = limits, 0, True
        self._arriving: dict[_Arriving, None] = {}  # in order

    @asynccontextmanager
    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> AsyncIterator[bytes | None]:
        """The body, for which there is room until the end of the ``with`` block; None if the client has left.

        Raises:
            Refusal: it is too large (413), too slow (408), or there is no room (503).
        """
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            raise self._too_large()
        body = await self._whole(receive)
        try:
            if body and headers.get(b"content-type", b"").startswith(b"application/json"):
                self._check_values(body)
            yield body
        finally:
            self._held -= len(body or b"")

    async def _whole(self, receive: Receive) -> bytes | None:
        if not self._open:
            raise shutting_down()
        seconds = self._limits.body_seconds
        too_slow = Refusal(408, "timeout", f"the body was not there within {seconds:g} s", "send less at once")
        with anyio.move_on_after(seconds) as scope:
            mine = _Arriving(scope, too_slow)
            self._arriving[mine] = None
            try:
                while mine in self._arriving:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    self._add(mine, message.get("body", b""))
                    if not message.get("more_body") and mine in self._arriving:
                        del self._arriving[mine]
                        return b"".join(mine.parts)
            finally:
                self._forget(mine)
        raise mine.refusal

    def _add(self, to: _Arriving, part: bytes) -> None:
        if to not in self._arriving:  # refused meanwhile
            return
        to.parts.append(part)
        to.size += len(part)
        self._held += len(part)
        if to.size > self._limits.body_bytes:
            raise self._too_large()
        if self._held > self._limits.held_bytes:
            message = "the bodies of other requests take all the memory there is for them"
            self._refuse(next(iter(self._arriving)), Refusal(503, "overloaded", message, "try again in a moment"))

    def _check_values(self, body: bytes) -> None:
        """Refuse JSON of very many parts before it is read. Signs in a text count too: they are tokens of it."""
        most = self._limits.values
        if len(body) > most and sum(map(body.count, (b",", b"[", b"{"))) > most:
            raise Refusal(413, "too_large", f"the body has more than {most} values", "send less at once")

    def _refuse(self, one: _Arriving, refusal: Refusal) -> None:
        one.refusal = refusal
        self._forget(one)
        one.scope.cancel()

    def _forget(self, one: _Arriving) -> None:
        if one in self._arriving:
            del self._arriving[one]
            self._held -= one.size
            one.parts.clear()

    def stop(self) -> None:
        """Refuse what is still on its way, and what comes."""
        self._open = False
        for one in list(self._arriving):
            self._refuse(one, shutting_down())

    def _too_large(self) -> Refusal:
        limit = self._limits.body_bytes
        return Refusal(413, "too_large", f"the body is larger than {limit} bytes", "send less at once")
