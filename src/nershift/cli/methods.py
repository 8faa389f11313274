"""`methods`: what there is to choose from, and every setting of a method with its value and meaning."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from nershift.config import Config, SettingInfo, build, settings_of, to_yaml
from nershift.console import make_console


def methods(
    name: Annotated[str | None, typer.Argument(help="Explain the settings of this method.")] = None,
    preset: Annotated[str, typer.Option("--preset", help="Show the values of this preset.")] = "default",
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print the settings as YAML, for --config.")] = False,
) -> None:
    """List the methods with their papers, or explain the settings of one."""
    from nershift.run_settings import resolve

    if name is None:
        _list(make_console())
    elif as_yaml:
        sys.stdout.write(to_yaml(resolve(name, {"preset": preset})))
    else:
        _explain(make_console(), name, preset)


def _list(console: Console) -> None:
    from nershift.methods import METHODS

    table = Table("method", "also called", "what it does", "paper", box=None, header_style="bold")
    for method in METHODS.values():
        table.add_row(method.name, ", ".join(METHODS.aliases(method.name)), method.summary, method.paper)
    console.print(table)
    console.print("\nSettings of one, explained: nershift methods NAME", highlight=False)


def _explain(console: Console, name: str, preset: str) -> None:
    from nershift.methods import METHODS
    from nershift.run_settings import resolve

    method, config = METHODS[name], resolve(name, {"preset": preset})
    names = ", ".join([method.name, *METHODS.aliases(method.name)])
    presets = ", ".join(f"{p} (shown)" if p == preset else p for p in method.presets)
    console.print(f"[bold]{escape(names)}[/]: {escape(method.summary)}", highlight=False)
    console.print(f"paper: {escape(method.paper)}\npresets: {presets}", highlight=False)
    for block, rows in by_block(config).items():
        console.print(f"\n[bold]{block}[/]", highlight=False)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold", max_width=24)
        table.add_column(ratio=1)
        for row in rows:
            changed = f"\n[dim]default: {escape(shown(row.default))}[/]" if row.value != row.default else ""
            explained = escape(row.help) + (f" [dim]({escape(row.allowed)})[/]" if row.allowed else "")
            table.add_row(row.name.removeprefix(f"{block}."), escape(shown(row.value)) + changed, explained)
        console.print(Padding(table, (0, 0, 0, 2)))
    console.print(
        "\nChange one: --set train.epochs=20. Write all to a file: nershift methods NAME --yaml", highlight=False
    )


def by_block(config: Config) -> dict[str, list[SettingInfo]]:
    """The settings of a resolved config, block by block; ``options`` are those of the method itself."""
    from nershift.methods import METHODS
    from nershift.run_settings import KINDS

    options: Any = build(METHODS[config.method].Options, config.options)
    blocks = {"run": [row for row in settings_of(config) if row.name in ("seed", "device", "tensorboard")]}
    for name in ("encoder", "head", "pretrain", "train"):
        blocks[name] = list(settings_of(getattr(config, name), name))
    blocks["options"] = list(settings_of(options, "options"))
    for place, known in KINDS.items():
        rows = blocks[place.partition(".")[0]]
        rows[:] = [dataclasses.replace(r, allowed=" | ".join(known)) if r.name == place else r for r in rows]
    return {block: rows for block, rows in blocks.items() if rows}


def shown(value: Any) -> str:
    """A value as one writes it after ``--set``."""
    if isinstance(value, str):
        return value or "''"
    return json.dumps(value, ensure_ascii=False)


def register(app: typer.Typer) -> None:
    app.command("methods")(methods)
