"""What a results folder of a bake-off is about: ``bakeoff.json``, read by the leaderboard."""

from pathlib import Path
from typing import Literal

import msgspec

from taciturn.errors import TaciturnError
from taciturn.system import atomic_write

INFO = "bakeoff.json"

Size = Literal["quick", "default", "full", "own"]


class BakeoffInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of a bake-off do not say themselves.

    Peers were tuned on the data sets `tuned_on`, by name, which are shown and never ranked. `recommended` is the method
    that the others are compared with. `left_out` has the reason for each method and data set that was not run.
    """

    title: str = "The silence bake-off"
    size: Size = "own"
    tuned_on: list[str] = []
    recommended: str = "viewucb"
    left_out: dict[str, dict[str, str]] = {}


def read_info(folder: Path) -> BakeoffInfo:
    """Return what ``bakeoff.json`` says, and the defaults where there is no such file."""
    file = folder / INFO
    if not file.exists():
        return BakeoffInfo()
    try:
        return msgspec.json.decode(file.read_bytes(), type=BakeoffInfo)
    except msgspec.MsgspecError as error:
        raise TaciturnError(f"{file} does not describe a bake-off: {error}") from None


def write_info(folder: Path, info: BakeoffInfo) -> None:
    """Write ``bakeoff.json``."""
    atomic_write(folder / INFO, msgspec.json.format(msgspec.json.encode(info)) + b"\n")
