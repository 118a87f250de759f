"""Links of Markdown text, which are relative to its place in the repository and differ in the site."""

import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath

FENCED = re.compile(r"(^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[ \t]*$)", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"""(?P<before>\]\(|<img src=")(?P<path>[^\s)"#]+)(?P<anchor>\#[^\s)"]*)?(?P<after>[)"])""")


def relink(
    text: str, source: PurePosixPath, place: PurePosixPath, moved: Callable[[PurePosixPath], PurePosixPath]
) -> str:
    """Return the text of `source` with its relative links as they are from `place`.

    `moved` returns where a file of the repository is in the site. Code and addresses of other hosts stay.
    """

    def replace(match: re.Match[str]) -> str:
        path = match["path"]
        if re.match(r"[a-z]+:", path):
            return match[0]
        target = PurePosixPath(os.path.normpath(source.parent / path))
        there = os.path.relpath(moved(target), place.parent)
        return f"{match['before']}{there}{match['anchor'] or ''}{match['after']}"

    pieces = FENCED.split(text)  # text, fenced code, its fence, text, …
    return "".join(TARGET.sub(replace, piece) if n % 3 == 0 else piece * (n % 3 == 1) for n, piece in enumerate(pieces))
