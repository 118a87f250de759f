"""Contexts in JSON, and how they become contexts of agents."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from taciturn.errors import InvalidContext

MAX_EXACT = 2**53
"""Integers up to here are exact in every JSON reader."""

JSONContext = list[float] | dict[str, float | list[float]]
"""A context in a request: [values], {"feature": value} or {"indices": […], "values": […], "size": n}."""


def parse_context(given: JSONContext) -> Any:
    """Convert a JSON context to a list, a dict of named features, or a CSR matrix (1, size)."""
    if isinstance(given, list):
        return given
    if is_sparse(given):
        return _parse_sparse(given)
    if any(isinstance(value, list) for value in given.values()):
        raise InvalidContext("a context of named features has one number for each; a sparse one has indices and values")
    return given


def is_sparse(given: dict[str, Any]) -> bool:
    """Whether a context is {"indices": […], "values": […], "size": n}: the value of a named feature is no list."""
    return isinstance(given.get("indices"), list)


def feature_count(given: JSONContext) -> int:
    """Number of features that a context has, before it is validated: values, names, or the size of a sparse row."""
    if isinstance(given, list):
        return len(given)
    size = given.get("size")
    return int(min(size, MAX_EXACT)) if is_sparse(given) and isinstance(size, float) else len(given)


def _parse_sparse(given: dict[str, Any]) -> sp.csr_matrix:
    if given.keys() != {"indices", "values", "size"}:
        raise InvalidContext(f"a sparse context has indices, values and size, not {', '.join(given)}")
    indices, values, size = given["indices"], given["values"], given["size"]
    if not isinstance(values, list) or len(values) != len(indices):
        raise InvalidContext("a sparse context needs as many values as indices")
    if isinstance(size, list) or not 0 < size <= np.iinfo(np.int32).max or size != int(size):
        raise InvalidContext(f"size {size} of a sparse context is not allowed; a whole number from 1 is")
    columns = np.array(indices)
    if len(columns) and not ((columns >= 0) & (columns < size) & (columns == np.floor(columns))).all():
        raise InvalidContext(f"indices of a sparse context are whole numbers from 0 to {int(size) - 1}")
    parts = (np.array(values, float), columns.astype(np.int32), [0, len(columns)])
    return sp.csr_matrix(parts, shape=(1, int(size)))
