"""Links of a page that work in the repository, made to work on the site."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping

LINK = re.compile(r"(\]\()(?!\w+:)([^)#\s]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^ {0,3}(```+|~~~+).*?^ {0,3}\2|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text, changed where it is not code.

    Example:
        >>> outside_code("a `a` a", str.upper)
        'A `a` A'
    """
    out, end = [], 0
    for code in _CODE.finditer(text):
        out += [change(text[end : code.start()]), code.group()]
        end = code.end()
    return "".join([*out, change(text[end:])])


def moved(text: str, source: str, place: str, places: Mapping[str, str], repository: str) -> str:
    """A page of the repository (``source``) as it has to read at ``place`` on the site.

    Links to files that are no pages lead to the repository; pictures are at the same place on both.

    Example:
        >>> places = {"docs/a.md": "a.md", "lib/README.md": "papers/lib.md"}
        >>> moved("[a](../docs/a.md#x) [code](code.py)", "lib/README.md", "papers/lib.md", places, "https://host")
        '[a](../a.md#x) [code](https://host/blob/main/lib/code.py)'
    """

    def change(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        if path.startswith("docs/pictures/"):
            return link[1] + os.path.relpath(path.removeprefix("docs/"), posixpath.dirname(place) or ".") + link[3]
        if path in places:
            return link[1] + os.path.relpath(places[path], posixpath.dirname(place) or ".") + link[3]
        return f"{link[1]}{repository}/blob/main/{path}{link[3]}"

    return outside_code(text, lambda part: LINK.sub(change, part))
