"""`llms.txt`: the pages with their first paragraphs, for programs that read text; and all pages in `llms-full.txt`."""

import re
from pathlib import Path, PurePosixPath

from docsite import reference
from docsite.layout import place_of
from docsite.staging import Staging

SUMMARY = "Decisions that learn from silence: contextual bandits whose reward often never comes"
NO_TEXT = ("#", "```", "|", "!", "<", "---", ":", "- ")


def title_and_opening(text: str) -> tuple[str, str]:
    """The title of a page and its first paragraph, without markup of links."""
    title = re.search(r"^# (.*)", text, re.MULTILINE)
    paragraphs = [block.strip() for block in text.split("\n\n")]
    opening = next((one for one in paragraphs if one and not one.startswith(NO_TEXT)), "")
    return title[1] if title else "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(opening.split()))


def write(staging: Staging, site: Path) -> None:
    """Write both files beside the pages; the text of a page is in `_sources`."""
    lines, texts = ["# taciturn", "", f"> {SUMMARY}."], []
    for section in staging.sections:
        lines += ["", f"## {section.title}", ""]
        for place in map(place_of, section.sources):
            text = (staging.folder / place).read_text(encoding="utf-8")
            title, opening = title_and_opening(text)
            lines.append(f"- [{title}](_sources/{place}.txt): {opening}")
            texts.append(text)
    lines += ["", "## Reference", ""]
    lines += [_line(page, *about[:2]) for page, about in reference.PAGES.items()]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(texts), encoding="utf-8")


def _line(page: str, title: str, sentence: str) -> str:
    """The line of a page of the reference, whose text is made when it is built."""
    return f"- [{title}]({PurePosixPath('api', page)}.html): {title_and_opening(sentence)[1]}"
