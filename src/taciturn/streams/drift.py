"""Drift: what happens to the right arms, or to the contexts, from some round on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import TaciturnError
from taciturn.streams.settings import parse_setting

KINDS = ("none", "labels", "features")
HALF_WAY = 0.5


def parse_drift(drift: Any) -> tuple[str, float]:
    """Parse ``"none"``, ``"labels"``, ``"features:0.25"`` as a kind and the share of rounds before it: half by default.

    The share of "none" is 0.
    """
    allowed = "'none' is, or a share of the rounds from 0 to 1, as in 'labels:0.5' or 'features:0.5'"
    if not isinstance(drift, str):
        raise TaciturnError(f"drift={drift!r} is not allowed; {allowed}")
    given = drift if ":" in drift else f"{drift}:{HALF_WAY}"
    kind, share = parse_setting("drift", given, KINDS, default="", most=1.0, allowed=allowed)
    return kind, 0.0 if kind == "none" else share


def derangement(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random permutation (n,) that leaves nothing in its place, for n ≥ 2; all of them are equally likely."""
    places = rng.permutation(n)
    while (places == np.arange(n)).any():  # one of e permutations, about 2.7, has no fixed point
        places = rng.permutation(n)
    return places
