"""JSON of answers."""

from typing import Any

import msgspec
import numpy as np

from taciturn.contracts import Decision


def _to_plain(value: Any) -> Any:
    """NumPy numbers and arrays as numbers and lists; anything else as the name of its type."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else f"<{type(value).__name__}>"


encode = msgspec.json.Encoder(enc_hook=_to_plain).encode


def encode_decisions(decisions: list[Decision], *, single: bool) -> bytes:
    """One decision as an object, or several as {"decisions": […]}."""
    return encode(decisions[0]) if single else encode({"decisions": decisions})
