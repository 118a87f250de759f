"""Data sets beyond the paper's, read from files that are on this machine already; there is no download."""

from functools import partial

from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.formats import read_file

FOLDER = "more"
"""The folder in ``TACITURN_DATA``, or in the cache, that holds these files."""


def _local(
    about: str, shape: str, home: str, file: str, *, label: str | None = None, terms: str = "CC BY 4.0"
) -> CatalogEntry:
    """Return the entry of a file in `FOLDER` or beside it, whose column `label` holds the right arm."""
    return CatalogEntry(about, shape, terms, home, (f"{FOLDER}/{file}", file), (), partial(read_file, label=label))


EVERYDAY: dict[str, CatalogEntry] = {
    "mushroom": _local(
        "mushrooms described by words: edible or poisonous",
        "5644 × 22 columns of categories, 2 arms",
        "UCI 73, rows without missing values",
        "mushroom.csv",
        label="class",
    ),
    "banking77": _local(
        "questions to a bank, one text each",
        "13083 texts, 77 arms",
        "PolyAI",
        "banking77.csv",
        label="intent",
    ),
    "banking77-embedded": _local(
        "6000 of banking77's questions as embeddings of wordllama",
        "6000 × 256, 77 arms",
        "PolyAI",
        "banking77-embedded.npz",
    ),
    "covertype": _local(
        "forest cover from maps, numbers of any size and flags",
        "20000 × 54, 7 arms",
        "UCI 31, random rows",
        "covertype.npz",
    ),
    "shuttle": _local(
        "sensors of the space shuttle, numbers of very different size",
        "10000 × 9, 7 arms",
        "UCI 148, random rows",
        "shuttle.npz",
    ),
    "magic": _local(
        "showers in a gamma-ray telescope",
        "10000 × 10, 2 arms",
        "UCI 159, random rows",
        "magic.npz",
    ),
    "model-routing": _local(
        "prompts as embeddings, with the reward and the cost of three language models",
        "3609 × 256, 3 arms, a reward for each",
        "the examples of ParetoBandit",
        "model-routing.npz",
        terms="not stated by its authors",
    ),
}
