"""`/docs`: the OpenAPI document as a page that needs nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any


def reference_page(schema: Mapping[str, Any]) -> str:
    """HTML with one section a route: what it does, what it takes, what it answers."""
    sections = [
        _section(method, path, told) for path, methods in schema["paths"].items() for method, told in methods.items()
    ]
    types = [
        f"<h3 id={_quoted(name)}>{escape(name)}</h3><pre>{escape(json.dumps(told, indent=1))}</pre>"
        for name, told in schema.get("components", {}).get("schemas", {}).items()
    ]
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{title}: routes</title><main><h1>{title}</h1>"
        '<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(sections)}<h2>Types</h2>{''.join(types)}</main></html>"
    )


def _section(method: str, path: str, told: Mapping[str, Any]) -> str:
    body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    rows = [
        f"<li><b>{escape(status)}</b> {escape(answer['description'])} {_types(answer)}</li>"
        for status, answer in told["responses"].items()
    ]
    takes = f"<p>takes {_types(body)}</p>" if body else ""
    about = escape(told.get("description") or told.get("summary", ""))
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2><p>{about}</p>{takes}"
        f"<ul>{''.join(rows)}</ul></section>"
    )


def _types(part: Any) -> str:
    """Links to the named types in a piece of schema."""
    names = sorted(set(_references(part)))
    return ", ".join(f"<a href={_quoted('#' + name)}>{escape(name)}</a>" for name in names)


def _references(part: Any) -> list[str]:
    if isinstance(part, Mapping):
        own = [str(part["$ref"]).rpartition("/")[2]] if "$ref" in part else []
        return own + [name for value in part.values() for name in _references(value)]
    if isinstance(part, list):
        return [name for value in part for name in _references(value)]
    return []


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'
