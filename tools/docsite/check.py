"""Checks of the built site: every link leads somewhere, and no page needs another host."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
          "embed": "src", "object": "data", "link": "href", "use": "href", "image": "href"}  # fmt: skip
"""What a browser loads by itself, by tag; of links, those of `RELATIONS`."""
RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "manifest", "apple-touch-icon"}
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?\s*(?:https?:)?//""")


@dataclass(slots=True)
class Found:
    """What a page has: ids, links (`a`) and what is loaded with it."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Found()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.found.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.found.links.append(values["href"])
        elif LOADED.get(tag) in values and (tag != "link" or RELATIONS & set(values.get("rel", "").split())):
            self.found.loaded.append(values[LOADED[tag]])
        self.found.loaded += [one.split()[0] for one in values.get("srcset", "").split(",") if one.strip()]


def read(path: Path) -> Found:
    """What a page has."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.found


def problems(site: Path) -> list[str]:
    """One line for each link that leads nowhere and for everything that is loaded from another host."""
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    lines = []
    for path, found in pages.items():
        where = path.relative_to(site)
        for link in found.links:
            lines += [f"{where}: {reason}" for reason in [_wrong_link(link, path, pages)] if reason]
        for address in found.loaded:
            lines += [f"{where}: {reason}" for reason in [_wrong_resource(address, path)] if reason]
    for path in sorted(site.rglob("*.css")):
        if IN_STYLES.search(path.read_text(encoding="utf-8")):
            lines.append(f"{path.relative_to(site)}: it loads from another host")
    return lines


def _wrong_link(link: str, page: Path, pages: dict[Path, Found]) -> str | None:
    """Why a link leads nowhere, if so; of other hosts only the address is looked at."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return None if "@" in parts.path else f"{link} is no address of a person"
    if parts.scheme or parts.netloc:
        good = parts.scheme in {"http", "https"} and re.fullmatch(r"[\w.-]+(:\d+)?", parts.netloc)
        return None if good else f"{link} is no address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return f"{link} leads to no file"
    missing = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
    return f"{link} leads to no place on that page" if missing else None


def _wrong_resource(address: str, page: Path) -> str | None:
    """Why what a page loads is wrong, if so: it is on another host, or does not exist."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return f"it loads {address} from another host"
    return None if (page.parent / unquote(parts.path)).exists() else f"{address}, which it loads, does not exist"
