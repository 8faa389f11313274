"""Listening on an address and answering there until the process is told to stop."""

from __future__ import annotations

import gc
import socket

import uvicorn

from nershift.errors import ConfigError
from nershift.server.app import make_app
from nershift.server.connection import Connection
from nershift.server.security import Guard
from nershift.server.service import Service


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound before a model is loaded, so that a wrong address is reported at once.

    It says that it is TCP, which asyncio looks for before it turns off Nagle's algorithm; without that the second
    packet of an answer waits some 40 ms for the first one's acknowledgement.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen there ({error.strerror or error})",
            place=f"{host}:{port}",
            fix="choose another --port (0: any free one) or --host",
        ) from None
    return listening


class Server(uvicorn.Server):
    """uvicorn within :class:`Limits`; on its way out it first has the service refuse what waits.

    So nobody is cut off without an answer. Requests under way are given five seconds.
    """

    def __init__(self, service: Service, guard: Guard, quiet: bool = False) -> None:
        limits, self._service = service.limits, service
        app = make_app(service, guard)
        app.openapi()  # made on the first request else, while all others wait
        config = uvicorn.Config(
            app,
            http=type("LimitedConnection", (Connection,), {"limits": limits}),
            ws="none",
            log_config=None,
            log_level="warning" if quiet else "info",
            access_log=not quiet,
            limit_concurrency=limits.connections + 1,  # more are refused where none is idle and can make room
            timeout_keep_alive=round(limits.idle_seconds),
            timeout_graceful_shutdown=5,
            server_header=False,
            proxy_headers=False,
        )
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()
        await super().shutdown(sockets)


def run(service: Service, guard: Guard, listening: socket.socket, quiet: bool = False) -> None:
    """Serve until SIGINT or SIGTERM."""
    server = Server(service, guard, quiet)
    # Without this, every full collection walks the model and stalls all requests for a tenth of a second.
    gc.collect()
    gc.freeze()
    server.run(sockets=[listening])
