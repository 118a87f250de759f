"""Embeddings of text: a vector of numbers for each text, near those of texts that mean the same.

An embedder is a function of the user's, or known by its name: the small model of wordllama, or an endpoint that speaks
the protocol of OpenAI.
"""

import importlib
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import EmbeddingFailed, InvalidContext, TaciturnError, UnknownName
from taciturn.features import embed_openai, embed_wordllama
from taciturn.features.embed_cache import EmbeddingCache, content_key
from taciturn.validate import MANY, check_number, shown

EmbedFunction = Callable[[list[str]], Any]

_GIVEN: dict[str, EmbedFunction] = {}
"""Functions that this process has given itself, by the names that files hold: only these are called by their name."""


def embedder(embed: str | EmbedFunction, *, cache_size: int = 10_000, allow_import: bool = False) -> "Embedder":
    """Return the embedder of a name or a function.

    Args:
        embed: a function from a list of n texts to an array (n, d); or the name of an embedder: ``wordllama``,
            ``openai:<model>``, ``openai:<model>@<base url>``, or ``package.module:function``.
        cache_size: how many embeddings are held, so that a text that comes again is not embedded again.
        allow_import: whether ``package.module:function`` may be imported, which runs its code; a name may come from
            a stranger, with a file or a request. A function that was given once, or allowed once, needs no permission.
    """
    check_number("cache_size", cache_size, 0, MANY, whole=True)
    if callable(embed):
        name = import_path(embed)
        if name is not None:
            _GIVEN[name] = embed
        return Embedder(embed, name, cache_size)
    if not isinstance(embed, str):
        raise TaciturnError(f"embed={shown(embed)} is not allowed; a function of a list of texts or a name is")
    if embed == embed_wordllama.NAME:
        embed_wordllama.check_installed()
        return Embedder(embed_wordllama.embed_texts, embed, cache_size)
    if embed.startswith(embed_openai.PREFIX):
        endpoint = embed_openai.OpenAIEndpoint(embed)
        return Embedder(endpoint, endpoint.name, cache_size)
    if ":" not in embed:
        raise UnknownName(f"no embedder {shown(embed)}; wordllama, openai:<model> or package.module:function is one")
    return Embedder(_imported(embed, allow_import=allow_import), embed, cache_size)


class Embedder:
    """Embeds texts as rows of unit length, and holds the last ones; threads may share it, and copies of agents do.

    Attributes:
        name: the string by which `embedder` makes it again; None for a function that cannot be imported, such as a
            lambda.
        dimension: the length d of the vectors; None before the first.
    """

    def __init__(self, function: EmbedFunction, name: str | None, cache_size: int) -> None:
        self.name = name
        self.dimension: int | None = None
        self._function = function
        self._cache = EmbeddingCache(cache_size)

    def __repr__(self) -> str:
        return f"<Embedder {self.name or shown(self._function)}: {len(self._cache)} texts, {self.nbytes} bytes>"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Embedder":
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of the embeddings that are held."""
        return self._cache.nbytes

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The embeddings (n, d) of n texts, each of length 1, or 0 where the embedder returns zeros.

        All texts that are not held are embedded with one call, each once. Raises `InvalidContext` for what is no text,
        and `EmbeddingFailed` if the embedder fails or does not return n finite vectors of d numbers.
        """
        keys = _content_keys(texts)
        vectors = self._cache.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing:
            computed = dict(zip(missing, self._compute(list(missing.values())), strict=True))
            self._cache.put(computed)
            vectors |= computed
        return np.stack([vectors[key] for key in keys]) if keys else np.zeros((0, self.dimension or 0), np.float32)

    def _compute(self, texts: list[str]) -> NDArray[np.float32]:
        try:
            result = self._function(texts)
        except TaciturnError:
            raise
        except Exception as error:
            raise self._failed(f"raised {type(error).__name__}: {shown(str(error))}") from error
        vectors = unit_rows(self._checked(result, len(texts)))
        self.dimension = vectors.shape[1]
        return vectors

    def _checked(self, result: Any, rows: int) -> NDArray[np.float64]:
        """The result as an array (rows, d); raises unless it is one, finite, and d is what it was before."""
        wanted = f"an array of {rows} rows of numbers is needed, one for each text"
        try:
            array = np.asarray(result)
        except Exception as error:  # ragged lists, tensors on another device, and whatever has __array__
            raise self._failed(f"returned a {type(result).__name__} that is no array; {wanted}") from error
        if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[0] != rows or array.shape[1] == 0:
            raise self._failed(f"returned an array of {array.dtype} of shape {array.shape}; {wanted}")
        if self.dimension not in {None, array.shape[1]}:
            raise self._failed(f"returned {array.shape[1]} numbers for a text, and {self.dimension} for those before")
        if not np.isfinite(array).all():
            raise self._failed("returned NaN or infinity; finite numbers are needed")
        return array.astype(np.float64)

    def _failed(self, what: str) -> EmbeddingFailed:
        return EmbeddingFailed(f"the embedder {self.name or shown(self._function)} {what}")


def unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """Each row (n, d) divided by its length; rows of zeros stay.

    They are divided by their largest number first, whose square might be too large or too small.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return (scaled / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def import_path(function: EmbedFunction) -> str | None:
    """The string ``package.module:name`` of a function that another process can import; None if there is none."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    try:
        is_there = operator.attrgetter(name)(sys.modules[module]) is function
    except (KeyError, AttributeError):
        is_there = False
    return f"{module}:{name}" if is_there else None


def _imported(path: str, *, allow_import: bool) -> EmbedFunction:
    if path in _GIVEN:
        return _GIVEN[path]
    if not allow_import:
        raise TaciturnError(
            f"the embedder {shown(path)} is code that would be imported; if you trust where its name comes from, call "
            f"taciturn.features.embed.embedder({path!r}, allow_import=True) once, or give the function itself"
        )
    module, _, name = path.partition(":")
    try:
        function = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"no embedder at {shown(path)} ({error}); give it as package.module:function") from None
    if not callable(function):
        raise UnknownName(f"the embedder {shown(path)} is a {type(function).__name__}; a function is needed")
    _GIVEN[path] = function
    return function  # type: ignore[no-any-return]


def _content_keys(texts: Sequence[str]) -> list[bytes]:
    """The keys of the texts; raises `InvalidContext` for the first that is none."""
    if isinstance(texts, str):
        raise InvalidContext("one text was given where a list of texts is needed")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidContext(f"text {i} is {shown(text)}; a string is needed")
    try:
        return [content_key(text) for text in texts]
    except UnicodeEncodeError as error:
        raise InvalidContext(f"a text has half a character, {shown(error.object[error.start])}; remove it") from None
