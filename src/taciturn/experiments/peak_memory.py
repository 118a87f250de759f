"""Peak resident memory of this process."""

from pathlib import Path

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def reset_peak() -> None:
    """Reset the peak to the current size, where the system supports it (Linux)."""
    if CLEAR.exists():
        CLEAR.write_text("5", encoding="ascii")


def peak_mb() -> float | None:
    """Return the peak since the last reset in MB, or None where the system does not report it."""
    if not STATUS.exists():
        return None
    lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    kilobytes = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return None if kilobytes is None else round(int(kilobytes) / 1024, 1)
