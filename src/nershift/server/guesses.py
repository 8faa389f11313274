"""Guessing a token takes time: an address that sent wrong ones waits before its next one is looked at."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from dataclasses import dataclass

from nershift.server.limits import Limits
from nershift.server.refusals import Refusal

_FIRST = 0.1  # seconds; each further wrong token doubles it
_ADDRESSES = 10_000  # that are remembered


Client = tuple[str, int]  # address and port: one connection


@dataclass
class _Guesser:
    wrong: int = 0
    last: float = 0.0
    waiting: int = 0


class Guesses:
    """Wrong tokens by the address they came from.

    The wait comes before a token is looked at, so that nobody learns anything by not waiting for the answer. Other
    addresses do not wait, nor does a connection whose last token was right: whoever guesses from the same address, or
    behind the same proxy, does not slow those down who are at work. Only new connections from there wait, a moment.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._waiting = limits, 0
        self._guessers: OrderedDict[str, _Guesser] = OrderedDict()
        self._known: OrderedDict[Client, None] = OrderedDict()  # connections whose last token was right

    async def wait(self, client: Client) -> None:
        """
        Raises:
            Refusal: too many wait already, of this address or of all (429); their tokens are not looked at.
        """
        guesser = self._guessers.get(network(client[0]))
        if client in self._known or guesser is None or time.monotonic() - guesser.last > self._limits.guess_forgotten:
            return
        if guesser.waiting >= self._limits.guesses or self._waiting >= self._limits.connections // 4:
            raise Refusal(429, "guessing", "wrong tokens came from this address", "wait a minute, then try again")
        guesser.waiting += 1
        self._waiting += 1
        try:
            await asyncio.sleep(min(_FIRST * 2 ** min(guesser.wrong - 1, 30), self._limits.guess_seconds))
        finally:
            guesser.waiting -= 1
            self._waiting -= 1

    def right(self, client: Client) -> None:
        """A right token came from this connection."""
        self._known[client] = None
        self._known.move_to_end(client)
        while len(self._known) > self._limits.connections:
            self._known.popitem(last=False)

    def wrong(self, client: Client) -> None:
        """A wrong token came from this connection."""
        self._known.pop(client, None)
        key, now = network(client[0]), time.monotonic()
        guesser = self._guessers.setdefault(key, _Guesser())
        if now - guesser.last > self._limits.guess_forgotten:
            guesser.wrong = 0
        guesser.wrong, guesser.last = guesser.wrong + 1, now
        self._guessers.move_to_end(key)
        while len(self._guessers) > _ADDRESSES:
            self._guessers.popitem(last=False)


def network(address: str) -> str:
    """What counts as one address: of IPv6 the part that a single customer is given.

    Example:
        >>> network("10.0.0.7"), network("2001:db8:1:2:3:4:5:6"), network("")
        ('10.0.0.7', '2001:db8:1:2::/64', '')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
