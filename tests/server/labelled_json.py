"""Labelled sentences as the server takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nershift.data.spans import Sentence


def as_json(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    return [
        {
            "tokens": list(s.tokens),
            "entities": [{"token_start": x.start, "token_end": x.end, "label": x.label} for x in s.spans],
        }
        for s in sentences
    ]
