"""What is wrong with a request that does not fit its schema: the field, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nershift.server.refusals import Refusal

_KINDS = {
    "string": "a text",
    "list": "a list",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "model": "an object",
    "dict": "an object",
    "finite": "a finite number",
}
# What pydantic calls a mistake → what to do; names in braces are what it says besides.
_FIXES = {
    "missing": "add the field {field}",
    "extra_forbidden": "remove {field}, or correct its name; /docs has the fields of this route",
    "too_long": "send at most {max_length}; what is more goes into another request",
    "too_short": "send {min_length} or more",
    "string_too_long": "shorten {field} to {max_length} characters",
    "string_too_short": "give {field} {min_length} character or more",
    "greater_than_equal": "give {field} a value of {ge} or more",
    "greater_than": "give {field} a value above {gt}",
    "less_than_equal": "give {field} a value of {le} or less",
    "less_than": "give {field} a value below {lt}",
    "literal_error": "choose for {field}: {expected}",
    "string_pattern_mismatch": "write {field} as the server gave it",
    "string_unicode": "send whole characters in UTF-8: half of a surrogate pair is none",
    "json_invalid": "correct the JSON at character {field}, or let a library write it",
    "value_error": "correct {field}",
    "assertion_error": "correct {field}",
}
_ELSE = "see /docs for what this route expects"


def refusal(errors: list[Mapping[str, Any]]) -> Refusal:
    """The first error, without the input itself; the place counts from the body, as in ``texts.0``."""
    first = errors[0]
    place = [str(part) for part in first["loc"] if not str(part).startswith("(")]  # those are kinds, not fields
    field = ".".join(place[1:] if place[:1] == ["body"] else place).encode("utf-8", "replace").decode()
    message = f"{'.'.join(place)}: {first['msg']}".encode("utf-8", "replace").decode()
    return Refusal(422, "invalid", message, _fix(first, field), field)


def _fix(error: Mapping[str, Any], field: str) -> str:
    kind = str(error["type"])
    if kind in _FIXES:
        known = {"field": field or "the body", **(error.get("ctx") or {})}
        try:
            return _FIXES[kind].format(**known).encode("utf-8", "replace").decode()
        except KeyError:  # a version that says less
            return _ELSE
    wanted = _KINDS.get(kind.partition("_")[0])
    return f"give {wanted} for {field or 'the body'}" if wanted else _ELSE
