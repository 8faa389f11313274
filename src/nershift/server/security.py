"""Who may ask: a token where others can reach the server, known host names where they cannot."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from nershift.server.refusals import Refusal

OPEN = ("/", "/health", "/docs", "/openapi.json")  # nothing in these is anybody's data
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Can only this machine reach a server bound to ``host``?

    Example:
        >>> [is_loopback(h) for h in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "10.0.0.2")]
        [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Guard:
    """Checks a request by its path and headers.

    Without a token only requests addressed to this machine by a name of its own are answered: a page from
    elsewhere whose host name was pointed here (DNS rebinding) is not.
    """

    token: str | None = None
    hosts: frozenset[str] = frozenset()  # further host names, next to the loopback ones

    def check(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        if self.token is None:
            host = _host_name(headers.get(b"host", b"").decode("latin-1"))
            if not (is_loopback(host) or host in self.hosts):
                message = "this server answers on this machine only"
                raise Refusal(403, "host", message, "use http://127.0.0.1 and its port")
            return
        if path in OPEN or path.startswith("/static/"):
            return
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not secrets.compare_digest(token.strip(), self.token.encode()):
            fix = "send 'Authorization: Bearer TOKEN' with the token that the server printed"
            raise Refusal(401, "token", "a token is needed", fix)


def _host_name(header: str) -> str:
    """The host of a Host header, without its port.

    Example:
        >>> [_host_name(h) for h in ("localhost:8000", "[::1]:8000", "127.0.0.1")]
        ['localhost', '::1', '127.0.0.1']
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()
