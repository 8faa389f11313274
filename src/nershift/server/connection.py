"""A connection: how large the head of a request may be, and how long its client may take for each part.

uvicorn leaves these open: a head may grow without end, and a client that stops half-way is waited for. All this comes
before anybody has shown a token.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from nershift.server.limits import Limits
from nershift.server.refusals import Refusal


class Connection(HttpToolsProtocol):
    """uvicorn's connection within :class:`Limits`.

    Where there are too many connections, the one is closed whose client has owed the server something for the longest
    time: the rest of a request, or a request at all. So those that do nothing make room for those that ask.
    """

    limits: ClassVar[Limits] = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._heading = True  # is a head awaited, or on its way?
        self._heads = self._head_bytes = self._parsed_bytes = 0
        self._cycles: deque[RequestResponseCycle] = deque()  # requests that are not answered, in order
        self._refusal = Refusal(400, "http", "this is not an HTTP request", "speak HTTP/1.1")
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._owing_since: float | None = self.loop.time()
        self._allow(self.limits.head_seconds)
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        for cycle in self._cycles:  # uvicorn tells the latest alone, and an earlier one would answer into nothing
            cycle.disconnected = True
            cycle.message_event.set()

    def _make_room(self) -> None:
        others = (c for c in self.connections if isinstance(c, Connection) and c is not self)
        owing = [(c._owing_since, c) for c in others if c._owing_since and not c.transport.is_closing()]
        if owing:  # else uvicorn answers 503, by its limit_concurrency
            oldest = min(owing, key=lambda pair: pair[0])[1]
            self.connections.discard(oldest)
            oldest.transport.abort()

    def _allow(self, seconds: float) -> None:
        """From now on the client has this long for what it owes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._too_late)

    def _settled(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if self._cycles:  # the time between two requests begins with the answer
            return
        if self._heading and self._head_bytes:
            seconds = self.limits.head_seconds
            self._refuse(Refusal(408, "timeout", f"no whole request within {seconds:g} s", "send it in one go"))
        else:
            self.transport.close()

    # -- the request -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._heading and self._timer is None:
            self._allow(self.limits.head_seconds)
        heading, heads = self._heading, self._heads
        super().data_received(data)
        if heading and self._heads == heads and not self.transport.is_closing():  # nothing but a part of a head
            self._head_bytes += len(data)  # what the parser holds back until a header is complete counts too
            if self._head_bytes > self.limits.head_bytes:
                self._refuse(self._too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed_bytes, self._owing_since = 0, self.loop.time()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._check_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._check_head(len(name) + len(value))

    def _check_head(self, more: int) -> None:
        self._parsed_bytes += more
        if self._parsed_bytes > self.limits.head_bytes or len(self.headers) > self.limits.headers:
            self._refusal = self._too_large()
            raise ValueError("the head is too large")  # ends the parser, which then calls send_400_response

    def _too_large(self) -> Refusal:
        most = f"{self.limits.head_bytes} bytes and {self.limits.headers} headers"
        return Refusal(
            431, "headers", f"the head of the request is larger than {most}", "send fewer or shorter headers"
        )

    def on_headers_complete(self) -> None:
        self._heading, self._head_bytes = False, 0
        self._heads += 1
        self._settled()
        if len(self._cycles) >= self.limits.pipelined:
            raise ValueError("too many requests")
        super().on_headers_complete()
        self._cycles.append(self.cycle)

    def on_message_complete(self) -> None:
        self._heading, self._owing_since = True, None
        super().on_message_complete()
        if not self._cycles:  # it was answered before its end
            self._settled()
            self._owing_since = self.loop.time()

    # -- the answer --------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self._cycles.popleft()
        if not self._cycles:
            self._owing_since = self._owing_since or self.loop.time()
            if not self._heading:  # the rest of a refused request is read, so that its client sees the answer
                self._allow(self.limits.rest_seconds)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer, unless an earlier request is being answered, and close."""
        if not self._cycles:
            body = refusal.response().body
            head = [
                f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            ]
            self.transport.write("\r\n".join([*head, "", ""]).encode() + bytes(body))
        self.transport.close()
