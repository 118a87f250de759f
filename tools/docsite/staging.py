"""The sources of the site in one folder: pages, notebooks, other files that pages link to, and the navigation."""

import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from docsite import links, notebooks, reference
from docsite.layout import FRONT, TITLES, Section, place_of, sections

UNLISTED = "---\norphan: true\nnosearch: true\n---\n\n"
PICTURES = (".png", ".svg")


class BrokenLink(Exception):
    """A link to a file that does not exist."""


class Staging:
    """Writes the sources of the site of the checkout `home` into `folder`."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.sections: list[Section] = sections(home)
        self._written: set[PurePosixPath] = set()

    def write(self) -> None:
        """Write everything."""
        for path in sorted((self.home / "docs").iterdir()):
            if path.suffix in PICTURES:
                shutil.copy(path, self.folder / path.name)
        for section in self.sections:
            for source in section.sources:
                self._add(source)
        trees = [_toctree(section.title, map(_listed, section.sources)) for section in self.sections]
        trees.insert(-1, _toctree("Reference", [f"api/{page}" for page in reference.PAGES]))
        self._add(FRONT, after="".join(trees))
        for place, text in reference.pages().items():
            (self.folder / place).parent.mkdir(exist_ok=True)
            (self.folder / place).write_text(text, encoding="utf-8")

    def _add(self, source: PurePosixPath, after: str = "") -> None:
        """Write the page of a file, unless it is there; `after` follows its text."""
        place = place_of(source)
        if place in self._written:
            return
        self._written.add(place)
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if place.parts[0] != "files":
            path.write_text(self._page(source, place) + after, encoding="utf-8")
        elif source.suffix == ".md":
            path.write_text(UNLISTED + self._page(source, place), encoding="utf-8")
        elif source.suffix in PICTURES:
            shutil.copy(self.home / source, path)
        elif (self.home / source).is_dir():
            path.write_text(self._listing(source, place), encoding="utf-8")
        else:
            path.write_text(_shown(source, (self.home / source).read_text(encoding="utf-8")), encoding="utf-8")

    def _page(self, source: PurePosixPath, place: PurePosixPath) -> str:
        """The text of a page with its links as they are in the site; pictures of a notebook are written beside it."""
        if source.suffix != ".ipynb":
            text = (self.home / source).read_text(encoding="utf-8")
            return links.relink(text, source, place, lambda target: self._linked(source, target))
        body, pictures = notebooks.convert(
            self.home / source,
            lambda text: links.relink(text, source, place, lambda target: self._linked(source, target)),
        )
        for name, picture in pictures.items():
            (self.folder / place.parent / name).parent.mkdir(exist_ok=True)
            (self.folder / place.parent / name).write_bytes(picture)
        shutil.copy(self.home / source, self.folder / place.parent / source.name)
        return f"{body}\n\n[Download this notebook]({source.name})\n"

    def _linked(self, source: PurePosixPath, target: PurePosixPath) -> PurePosixPath:
        """Where a linked file is in the site, to which it is added if it has no page yet."""
        if target.parts[0] == ".." or not (self.home / target).exists():
            raise BrokenLink(f"{source} links to {target}, which does not exist")
        if target == PurePosixPath("docs"):
            return place_of(FRONT)
        if place_of(target).parts[0] == "files":
            self._add(target)
        return place_of(target)

    def _listing(self, folder: PurePosixPath, place: PurePosixPath) -> str:
        """A page with a link to each file of a folder."""
        paths = [path for path in sorted((self.home / folder).iterdir()) if path.is_file()]
        text = "\n".join(f"- [`{path.name}`]({folder.name}/{path.name})" for path in paths)
        relinked = links.relink(text, folder, place, lambda target: self._linked(folder, target))
        return f"{UNLISTED}# {folder}\n\n{relinked}\n"


def _toctree(title: str, entries: Iterable[str]) -> str:
    """The directive that lists a section in the navigation."""
    lines = "\n".join(entries)
    return f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n\n{lines}\n```\n"


def _listed(source: PurePosixPath) -> str:
    """The entry of a page in the navigation."""
    name = str(place_of(source).with_suffix(""))
    return f"{TITLES[str(source)]} <{name}>" if str(source) in TITLES else name


def _shown(source: PurePosixPath, text: str) -> str:
    """A page that shows a file, with the colors of its language where that is known."""
    from pygments.lexers import find_lexer_class_for_filename

    lexer = find_lexer_class_for_filename(source.name)
    fence = "`" * 5
    return f"{UNLISTED}# {source}\n\n{fence}{lexer.aliases[0] if lexer else 'text'}\n{text}\n{fence}\n"
