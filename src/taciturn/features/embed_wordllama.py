"""The model inside the wheel of wordllama: a vector for each of 32 000 tokens, averaged over a text.

The package is asked for its weights and its tokenizer only. It finds its weights, but looks for its tokenizer in the
folder ``tokenizer`` where the wheel has ``tokenizers``; given its own folder as cache folder, it finds both, downloads
nothing and writes nothing. Averages are taken here, one text at a time: the package pads all texts of a batch to the
longest, which takes 1 kB for each token of it, and each text.
"""

import functools
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import EmbeddingFailed, TaciturnError, how_to_install

log = logging.getLogger(__name__)

NAME = "wordllama"
PATIENCE = 2.0
"""Seconds of loading after which a line says so."""

TOKENS_AT_ONCE = 4096
"""Tokens whose vectors are added up at once, so that a long text takes no more than 4 MB."""

_LOADING = threading.Lock()


class Model(NamedTuple):
    """A tokenizer, and the vectors (V, 256) of its tokens."""

    tokenizer: Any
    vectors: NDArray[np.float32]


def check_installed() -> None:
    """Raise unless wordllama is installed; it is not imported."""
    if importlib.util.find_spec(NAME) is None:
        raise TaciturnError(f"the embedder {NAME} is not installed; {how_to_install('text')} installs it")


def embed_texts(texts: list[str]) -> NDArray[np.float32]:
    """The means (n, 256) of the vectors of each text's tokens; zeros for a text without tokens."""
    with _LOADING:
        model = loaded_model()
    return np.stack([_mean_vector(model, text) for text in texts])


@functools.cache
def loaded_model() -> Model:
    """The model, loaded once in a process."""
    return load_model(time.perf_counter)


def load_model(clock: Callable[[], float]) -> Model:
    """Load the model from the installed package, and say so where it takes long by the `clock`."""
    started = clock()
    try:
        with _own_logging():
            import wordllama  # noqa: PLC0415 - an optional package, and slow to import
        folder = Path(wordllama.__file__).parent
        model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        raise EmbeddingFailed(f"the embedder {NAME} cannot be loaded: {' '.join(str(error).split())}") from error
    model.tokenizer.no_padding()
    if (seconds := clock() - started) > PATIENCE:
        log.warning("the embedder %s took %.1f s to load, once in this process", NAME, seconds)
    return Model(model.tokenizer, model.embedding)


@contextmanager
def _own_logging() -> Iterator[None]:
    """Keep the root logger as it is: wordllama configures it on import, unless it has a handler."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _mean_vector(model: Model, text: str) -> NDArray[np.float32]:
    """The mean (256,), added up token by token, so that neither other texts nor the machine change its bits."""
    ids = np.array(model.tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
    ids = np.minimum(ids, len(model.vectors) - 1)  # as the package does with tokens that were added later
    total = np.zeros(model.vectors.shape[1], np.float32)
    for start in range(0, len(ids), TOKENS_AT_ONCE):
        total += model.vectors[ids[start : start + TOKENS_AT_ONCE]].sum(axis=0)
    return total / np.float32(max(len(ids), 1))
