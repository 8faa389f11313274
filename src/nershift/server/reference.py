"""`/docs`: the OpenAPI document as a page that loads nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nershift.reports.html import page


def reference_page(schema: Mapping[str, Any]) -> str:
    """HTML with one section per route: what it does, takes and answers."""
    return page("routes.html", schema=schema, json=json.dumps, references=lambda part: sorted(set(_references(part))))


def _references(part: Any) -> Iterator[str]:
    """The types named in a piece of schema."""
    if isinstance(part, Mapping):
        if "$ref" in part:
            yield str(part["$ref"]).rpartition("/")[2]
        part = list(part.values())
    for value in part if isinstance(part, list) else ():
        yield from _references(value)
