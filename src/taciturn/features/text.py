"""Text as words and pairs of neighboring words, weighted by how often they occur."""

import math
import re
from itertools import pairwise

WORD = re.compile(r"\w+(?:['’]\w+)*")

MAX_WORDS = 2000
"""Words of a text beyond these are not read."""

PAIR = 0.5
"""The weight of a pair of words beside that of a word."""


def words_and_pairs(text: str) -> dict[str, float]:
    """Each word and each pair of neighboring words with its weight; the weights have unit length.

    A word that occurs n times weighs ``1 + log n``, a pair half of that.
    """
    words = WORD.findall(text.casefold())[:MAX_WORDS]
    counts: dict[str, float] = {}
    for word in words:
        counts[word] = counts.get(word, 0.0) + 1.0
    pairs: dict[str, float] = {}
    for first, second in pairwise(words):
        pair = f"{first} {second}"
        pairs[pair] = pairs.get(pair, 0.0) + 1.0
    weights = {word: 1.0 + math.log(n) for word, n in counts.items()}
    weights |= {pair: PAIR * (1.0 + math.log(n)) for pair, n in pairs.items()}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {name: weight / length for name, weight in weights.items()}
