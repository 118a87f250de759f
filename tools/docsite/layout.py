"""What the site consists of, by section, and where a file of the repository is in it."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

HOME = Path(__file__).resolve().parents[2]

# Files in the order of the navigation; those that do not exist are left out. A `*` stands for all others that match.
SECTIONS = {
    "Begin": ("docs/start.md", "docs/contexts.md", "docs/choosing.md", "docs/production.md", "docs/recipes.md"),
    "Serve": (
        "docs/serving.md",
        "docs/running.md",
        "docs/scale.md",
        "docs/router.md",
        "docs/router-story.md",
        "docs/interop.md",
    ),
    "Gallery": ("examples/gallery/*.ipynb",),
    "Go deeper": (
        "docs/your-own.md",
        "docs/embeddings.md",
        "docs/large.md",
        "docs/off-policy.md",
        "docs/datasets.md",
        "docs/*.md",
    ),
    "Method and evidence": ("docs/viewucb.md", "docs/results.md", "docs/bakeoff.md", "docs/performance.md"),
    "Project": ("CHANGELOG.md", "README.md", "CONTRIBUTING.md", "*.md"),
}
FRONT = PurePosixPath("docs/index.md")

# What the navigation calls pages whose own titles are longer, or do not say it.
TITLES = {
    "README.md": "README",
    "CONTRIBUTING.md": "Contributing",
    "docs/production.md": "A decision's life",
    "docs/your-own.md": "Your own data and agent",
    "docs/large.md": "Large problems",
    "docs/viewucb.md": "The method",
    "docs/results.md": "Results",
    "docs/bakeoff.md": "The bake-off",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the navigation: its `title`, and its pages as paths in the repository."""

    title: str
    sources: tuple[PurePosixPath, ...]


def sections(home: Path) -> list[Section]:
    """The navigation of a checkout: every page of `docs/`, the notebooks and the files of the first folder once."""
    named = {FRONT, *(PurePosixPath(path) for paths in SECTIONS.values() for path in paths)}
    found = []
    for title, patterns in SECTIONS.items():
        sources: list[PurePosixPath] = []
        for pattern in patterns:
            matches = sorted(PurePosixPath(path.relative_to(home)) for path in home.glob(pattern))
            sources += [path for path in matches if "*" not in pattern or path not in named]
        found.append(Section(title, tuple(sources)))
    return [section for section in found if section.sources]


def place_of(source: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository is in the site's sources."""
    if source.parts[0] == "docs":
        return source.relative_to("docs")
    if source.suffix == ".ipynb":
        return PurePosixPath("gallery", source.stem + ".md")
    if source.suffix == ".md" and len(source.parts) == 1:
        return PurePosixPath(source.name.lower())
    if source.suffix in {".md", ".png", ".svg"}:
        return PurePosixPath("files", source)
    return PurePosixPath("files", f"{source}.md")  # a page that shows the file
