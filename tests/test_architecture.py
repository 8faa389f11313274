"""Imports go one way, lazy ones included; a paper's folder is reached by the registry alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
# Each layer may import from those above it. Modules at the root are layers like the packages.
LAYERS = (
    ("errors",),
    ("arguments",),
    ("registry", "storage", "folder_lock", "parsing", "console", "backend"),
    ("data", "manifest"),
    ("config", "text", "evaluation", "run_arguments"),
    ("encoders", "heads", "reports"),
    ("model",),
    ("model_store", "training", "comparison"),
    ("methods",),
    ("tagger", "run_settings", "run_request"),
    ("run_folder",),
    ("run_stages",),
    ("run", "dapt"),
    ("resume_run", "distillation"),
    ("labelling",),
    ("auto",),
    ("server", "demo"),
    ("cli",),
    ("__main__",),
)
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}
PAPERS = tuple(sorted(p.parent.name for p in (SOURCE / "nershift" / "methods").glob("*/__init__.py")))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def unit_of(module: str) -> str:
    """The package or root module that a module belongs to; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


def imports(node: ast.AST) -> Iterator[str]:
    """Modules of ours that are imported anywhere below, in functions too; imports for types alone do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("nershift"):
            for name in child.names:
                whole = f"{child.module}.{name.name}"
                yield whole if whole in MODULES else str(child.module)
        elif isinstance(child, ast.Import):
            yield from (name.name for name in child.names if name.name.startswith("nershift"))
        yield from imports(child)


EDGES = {module: set(imports(ast.parse(path.read_text("utf-8")))) for module, path in MODULES.items()}


def test_every_package_and_root_module_has_a_place() -> None:
    assert {unit_of(module) for module in MODULES} - {""} == set(RANK)


@pytest.mark.parametrize("unit", sorted(RANK))
def test_imports_go_one_way(unit: str) -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in EDGES.items()
        if unit_of(module) == unit
        for other in others
        if unit_of(other) not in ("", unit) and RANK[unit_of(other)] >= RANK[unit]
    ]
    assert not wrong


def test_no_cycle_among_modules_even_by_imports_in_functions() -> None:
    graph = {module: others - {module, "nershift"} for module, others in EDGES.items() if module != "nershift"}
    cycle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = error.args[1]
    assert not cycle


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_folder_is_reached_by_the_registry_alone(paper: str) -> None:
    room = f"nershift.methods.{paper}"
    outside = [
        f"{module} imports {other}"
        for module, others in EDGES.items()
        if not (module == room or module.startswith(f"{room}."))
        for other in others
        if other == room or other.startswith(f"{room}.")
    ]
    assert not outside


def imported_packages(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize(("unit", "package"), [("evaluation", "torch"), ("data", "torch"), ("data", "rich")])
def test_layers_without_a_model_or_a_terminal(unit: str, package: str) -> None:
    inside = {module: imported_packages(path) for module, path in MODULES.items() if unit_of(module) == unit}
    assert not [module for module, packages in inside.items() if package in packages]


def test_no_downcast_by_assertion() -> None:
    found = [module for module, path in MODULES.items() if "assert isinstance(" in path.read_text("utf-8")]
    assert not found
