"""Who may ask: a token where others can reach the server, known host names where they cannot, and no page of others."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nershift.server.refusals import Refusal

OPEN = ("/", "/health", "/docs", "/openapi.json")  # nothing in these is anybody's data
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)


_SAFE = ("GET", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH")
_ONCE = (b"host", b"origin", b"content-type", b"sec-fetch-site", b"authorization")


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

    def check(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Raises a :class:`Refusal` before anything of the body is read."""
        said: dict[bytes, str] = {}
        for name, value in headers:
            if name in _ONCE and name in said:
                raise Refusal(400, "header", f"two headers are called {name.decode()}", "send one of them")
            said[name] = value.decode("latin-1")
        self._check_sender(path, said)
        if method not in _SAFE:
            _check_origin(said)
        if (
            method in _WITH_BODY
            and said.get(b"content-type", "").partition(";")[0].strip().lower() != "application/json"
        ):
            raise Refusal(
                415, "media_type", "the body is not announced as JSON", "send 'Content-Type: application/json'"
            )

    def has_token(self, path: str, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Does a request bring a token that has to be compared?"""
        asked = self.token is not None and not _is_open(path)
        return asked and any(name == b"authorization" for name, _ in headers)

    def _check_sender(self, path: str, said: Mapping[bytes, str]) -> None:
        if self.token is None:
            host = _host_name(said.get(b"host", ""))
            if not (is_loopback(host) or host in self.hosts):
                message = "this server answers on this machine only"
                raise Refusal(403, "host", message, "use http://127.0.0.1 and its port")
            return
        if _is_open(path):
            return
        scheme, _, token = said.get(b"authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(
            token.strip().encode("latin-1"), self.token.encode()
        ):
            fix = "send 'Authorization: Bearer TOKEN' with the token that the server was given, or printed"
            raise Refusal(401, "token", "a token is needed", fix)


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/static/")


def _check_origin(said: Mapping[bytes, str]) -> None:
    """A browser says for whom it asks: only the server's own page may change anything.

    Programs say neither. ``same-site`` is refused too: another port of this machine is of the same site.
    """
    site, origin = said.get(b"sec-fetch-site"), said.get(b"origin")
    own = origin is None or _address(origin.partition("://")[2]) == _address(said.get(b"host", ""))
    if site not in (None, "same-origin", "none") or not (own or site == "same-origin"):
        fix = "ask from the server's own page; a proxy must pass on the Host header that it was sent"
        raise Refusal(403, "origin", "this request comes from a page of another address", fix)


def _address(host: str) -> str:
    """Host and port as they are compared: the ports that a browser leaves out are left out.

    Example:
        >>> [_address(host) for host in ("Example.org:443", "127.0.0.1:8000")]
        ['example.org', '127.0.0.1:8000']
    """
    return host.lower().removesuffix(":80").removesuffix(":443")


def _host_name(header: str) -> str:
    """The host of a Host header, without its port.

    Example:
        >>> [_host_name(h) for h in ("localhost:8000", "[::1]:8000", "127.0.0.1")]
        ['localhost', '::1', '127.0.0.1']
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()
