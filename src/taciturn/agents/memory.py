"""How much memory there is, and how to say it."""

import os
from pathlib import Path

CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def of_machine() -> float:
    """The machine's memory in bytes, or the container's if that has less."""
    limits = [float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    for file in CONTAINER_LIMITS:
        text = file.read_text() if file.is_file() else ""
        limits += [float(text)] if text.strip().isdigit() else []
    return min(limits, default=float("inf"))


def in_words(size: float) -> str:
    """A number of bytes as people say it: three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000.0
    return f"{size:.3g} TB"
