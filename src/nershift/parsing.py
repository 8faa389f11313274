"""JSON and YAML that others wrote: whatever is wrong with a text, the parser says it with a :class:`ValueError`."""

from __future__ import annotations

import json
from typing import Any

import yaml

_MOST_VALUES = 1_000_000  # of a YAML text with its references written out


class BadText(ValueError):
    """A mistake in the syntax, with its line where that is known."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def parse_json(text: str) -> Any:
    """``json.loads`` that refuses deep nesting as it refuses wrong syntax; numbers of 5,000 digits are refused too.

    Example:
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ValueError: lists and objects are nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None


def parse_yaml(text: str) -> Any:
    """``yaml.safe_load`` with one kind of error, for texts that are small when their references are written out.

    Raises:
        ValueError: a :class:`BadText` where the parser knows the line.
    """
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _size(root, {})
        return loader.construct_document(root)
    except RecursionError:
        raise ValueError("lists and blocks are nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        raise BadText(str(error.problem), error.problem_mark.line + 1 if error.problem_mark else None) from None
    except yaml.reader.ReaderError as error:
        raise ValueError(f"a character that YAML cannot hold, at {error.position}") from None
    except (AttributeError, KeyError):  # the parser looks at a value as what its tag (!!bool) says
        raise ValueError("a value that does not fit the type it is tagged with (!!)") from None


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for. A few references to references can stand for more than fits any memory."""
    if id(node) in known:
        if not known[id(node)]:
            raise ValueError("a reference (*) to what it stands in")
        return known[id(node)]
    known[id(node)] = 0
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_size(item, known) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        total += sum(_size(part, known) for pair in node.value for part in pair)
    if total > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES:,} values when references (*) are written out")
    known[id(node)] = total
    return total
