"""Text as words, pairs of neighboring words and stems, weighted by how often they occur."""

import re

WORD = re.compile(r"\w+(?:['’]\w+)*")

MAX_WORDS = 2000
"""Words of a text beyond these are not read."""

PAIR, STEM = 0.5, 0.7
"""The weights of a pair of words and of a stem beside that of a word."""

STEM_LETTERS = 5
"""Longer words share a feature with all that begin with the same letters, so that endings matter less."""


def terms_of(text: str) -> dict[str, float]:
    """Words, pairs of neighboring words and stems of a text: how often each occurs, times its weight."""
    words = WORD.findall(text.casefold())[:MAX_WORDS]
    weights: dict[str, float] = {}
    last = None
    for word in words:
        weights[word] = weights.get(word, 0.0) + 1.0
        if last is not None:
            pair = f"{last} {word}"
            weights[pair] = weights.get(pair, 0.0) + PAIR
        if len(word) > STEM_LETTERS:
            stem = f"{word[:STEM_LETTERS]}…"
            weights[stem] = weights.get(stem, 0.0) + STEM
        last = word
    return weights
