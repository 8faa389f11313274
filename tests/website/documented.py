"""The commands and the Python that the documents show."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")),
        *(page for page in (ROOT / "docs").rglob("*.md") if page.name not in ("commands.md", "settings.md")),
        *(ROOT / "src/nershift/methods").glob("*/README.md"),
        ROOT / "experiments/README.md",
    ]
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```|((?:^    [^\n]*\n|^\n(?=    ))+)", re.MULTILINE | re.DOTALL)
_PROGRAMS = ("nershift", "python", "python3", "pip", "make", "curl", "echo", "git", "uv", "docker", "accelerate", "cd")
_START = re.compile(rf"^ *(?:[A-Z_]+=\S+ )*(?:{'|'.join(_PROGRAMS)}) ", re.MULTILINE)
# Every program becomes a function that writes its words down. So the shell itself reads quotes, variables and loops.
_PRELUDE = """
record() { printf '%s\\0' "$@"; if [ "${*: -1}" = "-" ]; then printf '\\2\\0'; cat; printf '\\0'; fi; printf '\\1\\0'; }
""" + "".join(f'{name}() {{ record {name} "$@"; }}\n' for name in _PROGRAMS if name not in ("cd", "echo"))


@dataclass(frozen=True)
class Command:
    """A command as a shell would start it, with what is piped into it."""

    page: Path
    words: tuple[str, ...]
    stdin: str = ""

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}: {' '.join(self.words)}"


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and code of each block; blocks by indentation have none."""
    for language, fenced, indented in _BLOCK.findall(page.read_text("utf-8")):
        yield language, fenced or re.sub("^    ", "", indented, flags=re.MULTILINE)


def commands(page: Path) -> list[Command]:
    """All commands of a page in their order. In a console, what follows ``$`` is a command, and the rest is output."""
    found: list[Command] = []
    for language, code in blocks(page):
        joined = code.replace("\\\n", " ")
        if language == "console" or joined.startswith("$ "):
            joined = "\n".join(line[2:] for line in joined.splitlines() if line.startswith("$ "))
        elif language not in ("", "bash", "shell") or not _START.search(joined):
            continue
        found += _recorded(page, joined)
    return found


def _recorded(page: Path, script: str) -> Iterator[Command]:
    done = subprocess.run(["bash", "-c", _PRELUDE + script], capture_output=True, text=True, check=True)
    for record in done.stdout.split("\1\0")[:-1]:
        words, _, stdin = record.partition("\2\0")
        yield Command(page, tuple(words.split("\0")[:-1]), stdin.rstrip("\0"))


def inline(page: Path) -> list[list[str]]:
    """Commands of ours within sentences, in words. They may leave out arguments: only their options are checked."""
    spans = re.findall(r"(?<!`)`(nershift [^`\n]+)`(?!`)", page.read_text("utf-8"))
    return [shlex.split(span) for span in spans]
