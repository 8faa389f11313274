"""Which pages the site has, under which headings, and where each file of the repository stands on it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/nershift/nershift"
PAPERS = ("metaner", "metacross", "datnet", "crosslm", "laner")
_WITH_RESULTS = ("baselines", "few", "fit", "unlabelled", *PAPERS)
RESULTS = tuple(name for name in _WITH_RESULTS if (ROOT / "experiments" / name / "README.md").exists())

# Heading: pages in their order, by their place on the site.
CONTENTS: dict[str, tuple[str, ...]] = {
    "Start": ("start", "tasks", "fit", "which", "faq"),
    "Tutorials": (
        "tutorials/own-data",
        "tutorials/several-domains",
        "tutorials/another-language",
        "tutorials/label-adapt-label",
        "tutorials/large-to-small",
        "tutorials/production",
        "notebooks/first-tagger",
        "notebooks/honest-scores",
        "notebooks/what-to-label-next",
    ),
    "Guides": ("data", "labelling", "unlabelled", "report", "page", "serve", "deploy"),
    "Papers": ("methods", *(f"papers/{paper}" for paper in PAPERS)),
    "Reference": ("commands", "settings", "api"),
    "Results": ("results", "findings", "benchmarks", *(f"results/{name}" for name in RESULTS), "results/grids"),
    "Project": ("architecture", "contributing", "changelog", "security", "code_of_conduct"),
}


def sources() -> dict[str, str]:
    """Files of the repository that are pages: path → place on the site."""
    places = {f"docs/{page.relative_to(ROOT / 'docs')}": "" for page in (ROOT / "docs").rglob("*.md")}
    places = {path: path.removeprefix("docs/") for path in places}
    places |= {f"src/nershift/methods/{paper}/README.md": f"papers/{paper}.md" for paper in PAPERS}
    places |= {f"experiments/{name}/README.md": f"results/{name}.md" for name in RESULTS}
    places |= {"experiments/README.md": "results/grids.md"}
    places |= {
        f"{name}.md": f"{name.lower()}.md" for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
    }
    places |= {f"examples/notebooks/{book.name}": f"notebooks/{book.stem}.md" for book in notebooks()}
    return places


def notebooks() -> list[Path]:
    return sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
