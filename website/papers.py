"""The page of a paper: what it says and what we built (its folder's README), then what we found (the findings)."""

from __future__ import annotations

import re

from website.contents import ROOT

FINDINGS = "docs/findings.md"


def section(text: str, heading: str) -> str:
    """What stands below a heading of the second level.

    Example:
        >>> section("# All\\n\\n## A\\n\\none\\n\\n## B\\n\\ntwo\\n", "A")
        'one'
    """
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"{FINDINGS} has no section '## {heading}'")
    return found[1].strip()


def findings(paper: str) -> str:
    """What `docs/findings.md` says of a paper, whose heading begins with the paper's name."""
    text = (ROOT / FINDINGS).read_text(encoding="utf-8")
    names = [name for name in re.findall(r"^## (.*)$", text, re.MULTILINE) if name.lower().startswith(paper)]
    parts = [section(text, name) for name in names]
    return "\n\n".join(["## What we found", *(re.sub(r"^###", "####", part, flags=re.MULTILINE) for part in parts)])
