"""Output for people. What comes from data (tokens, labels, file names) never steers the terminal.

Every command prints through here. A terminal obeys control characters: a corpus could otherwise hide or rewrite what
is shown, or change the title of the window.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# All control characters but line feed and tab, and halves of characters, which cannot be written.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0xD800, 0xE000))}  # JSON escapes the others


def visible(text: str) -> str:
    r"""The text with a picture in place of each control character.

    Example:
        >>> visible("Leeds\x1b[2J\r\n")
        'Leeds␛[2J␍\n'
    """
    return _CONTROL.sub(lambda match: _picture(ord(match.group())), text)


def _picture(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


class VisibleConsole(Console):
    """A console of rich whose own codes reach the terminal, but none that stand in what it prints."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def make_console(stderr: bool = False) -> Console:
    return VisibleConsole(stderr=stderr)


def say(text: str, err: bool = False) -> None:
    """A line of plain text."""
    print(visible(text), file=sys.stderr if err else sys.stdout)


def to_json(value: Any, indent: int | None = None) -> str:
    r"""JSON that a terminal shows as it is; it means the same as what ``json.dumps`` gives.

    Example:
        >>> to_json({"Łódź": "\x9b2J\x1b"})
        '{"Łódź": "\\u009b2J\\u001b"}'
    """
    return json.dumps(value, ensure_ascii=False, indent=indent).translate(_JSON)


def show_traceback(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """For ``sys.excepthook``."""
    say("".join(traceback.format_exception(kind, error, where)).rstrip("\n"), err=True)
