"""JSON of answers."""

from typing import Any

import msgspec
import numpy as np


def _to_plain(value: Any) -> Any:
    """NumPy numbers and arrays as numbers and lists; anything else as the name of its type."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else f"<{type(value).__name__}>"


encode = msgspec.json.Encoder(enc_hook=_to_plain).encode


def answer_of(decisions: bytes, *, single: bool) -> bytes:
    """The answer with these decisions, a list in JSON: the only one as an object, or several as {"decisions": […]}."""
    return decisions[1:-1] if single else b'{"decisions":' + decisions + b"}"
