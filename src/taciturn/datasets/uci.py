"""Data sets of the UCI repository, downloaded by name as the archive that UCI publishes.

Where several public projects that downloaded an archive report one and the same sha256, it is pinned here.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from taciturn.datasets.archives import read_members
from taciturn.datasets.cells import parsers
from taciturn.datasets.delimited import check_lengths, convert
from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.fetch import WebFile
from taciturn.datasets.files import RawData, label_column
from taciturn.datasets.table import Table, contexts_of
from taciturn.errors import InvalidData


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the files of an archive hold rows.

    `members` are the files, read one after the other; `columns` the names of their columns, none where the first row
    has them; `label` is the column of the right arm and `dropped` one that identifies a row. `separator` None is white
    space. `arms` are names of the labels, where they are codes or written in several ways.
    """

    members: tuple[str, ...]
    columns: tuple[str, ...] = ()
    label: str = "class"
    dropped: str | None = None
    separator: str | None = ","
    arms: Mapping[str, str] | None = None

    def read(self, path: Path) -> RawData:
        """Read the archive."""
        rows = [row for text in read_members(path, *self.members) for row in self._rows(text)]
        header = self.columns or tuple(rows.pop(0))
        pieces = [rows] if rows else []
        try:
            check_lengths(rows, header)
            label = label_column(header, self.label)
            columns, labels = convert(header, lambda: pieces, label, parsers(decimal_comma=False))
        except InvalidData as error:
            raise InvalidData(f"{path.name}: {error}") from None
        kept = [column for column in columns if column.name != self.dropped]
        if self.arms is not None:
            labels = [self.arms[text] for text in labels]
        return RawData(contexts_of(Table(kept)), labels, features=[column.name for column in kept])

    def _rows(self, text: str) -> list[list[str]]:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("|")]  # | is a comment
        if self.separator is None:
            return [line.split() for line in lines]
        return list(csv.reader(lines, delimiter=self.separator, skipinitialspace=True))


def _uci(number: int, slug: str, about: str, shape: str, layout: Layout, sha256: str | None = None) -> CatalogEntry:
    """Return the entry of the data set of this number, whose archive is called `slug`."""
    file = WebFile(f"{slug}.zip", f"https://archive.ics.uci.edu/static/public/{number}/{slug}.zip", sha256)
    return CatalogEntry(about, shape, "CC BY 4.0", f"UCI {number}", (file.name,), (file,), layout.read)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_LETTER = _names("class x-box y-box width high onpix x-bar y-bar x2bar y2bar xybar x2ybr xy2br x-ege xegvy y-ege yegvx")
_PENDIGITS = (*(f"{axis}{point}" for point in range(1, 9) for axis in "xy"), "class")
_SATIMAGE = (*(f"pixel {pixel} band {band}" for pixel in range(1, 10) for band in range(1, 5)), "class")
_SOILS = {
    "1": "red soil",
    "2": "cotton crop",
    "3": "grey soil",
    "4": "damp grey soil",
    "5": "soil with vegetation stubble",
    "7": "very damp grey soil",
}
_SPAM_WORDS = _names(
    """make address all 3d our over remove internet order mail receive will people report addresses free business email
    you credit your font 000 money hp hpl george 650 lab labs telnet 857 data 415 85 technology 1999 parts pm direct cs
    meeting original project re edu table conference"""
)
_SPAMBASE = (
    *(f"word_freq_{word}" for word in _SPAM_WORDS),
    *(f"char_freq_{mark}" for mark in ";([!$#"),
    *(f"capital_run_length_{kind}" for kind in ("average", "longest", "total")),
    "class",
)
_CAR = _names("buying maint doors persons lug_boot safety class")
_NURSERY = _names("parents has_nurs form children housing finance social health class")
_ADULT = _names(
    """age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain
    capital-loss hours-per-week native-country class"""
)
_INCOMES = {"<=50K": "<=50K", ">50K": ">50K", "<=50K.": "<=50K", ">50K.": ">50K"}  # with a point in adult.test
_YEAST = _names("sequence mcg gvh alm mit erl pox vac nuc class")

UCI: dict[str, CatalogEntry] = {
    "letter": _uci(
        59,
        "letter+recognition",
        "capital letters in many fonts, measured",
        "20000 × 16, 26 arms",
        Layout(members=("letter-recognition.data",), columns=_LETTER),
        "3b5f07a334697b6cace4fbae22940393a18fee596e73f68d97ce5973d52dc60f",
    ),
    "pendigits": _uci(
        81,
        "pen+based+recognition+of+handwritten+digits",
        "digits written with a pen, as eight points",
        "10992 × 16, 10 arms",
        Layout(members=("pendigits.tra", "pendigits.tes"), columns=_PENDIGITS),
        "1e02bea023613c2b11c9492f6f34caf975420455934f3527d270cee9a1f03b64",
    ),
    "satimage": _uci(
        146,
        "statlog+landsat+satellite",
        "soil and crops from a satellite, 3×3 pixels in four bands",
        "6435 × 36, 6 arms",
        Layout(members=("sat.trn", "sat.tst"), columns=_SATIMAGE, separator=None, arms=_SOILS),
        "7c54e0e11c872a1b0b647da370d596dcb06746159cce4121d92ccd70b7d7ce3c",
    ),
    "spambase": _uci(
        94,
        "spambase",
        "e-mails as frequencies of words and characters: spam or not",
        "4601 × 57, 2 arms",
        Layout(members=("spambase.data",), columns=_SPAMBASE, arms={"0": "non-spam", "1": "spam"}),
        "813ac1df8effac70463c09c9c4b11e8803eefcab54771af66150852bcdcd1636",
    ),
    "car": _uci(
        19,
        "car+evaluation",
        "cars described by words, and how acceptable they are",
        "1728 × 6 words, 4 arms",
        Layout(members=("car.data",), columns=_CAR),
        "1559d51dcf327f4f8c71b711ceed7fd95a382fc8d8e1998667f4f23b82860403",
    ),
    "nursery": _uci(
        76,
        "nursery",
        "applications to a nursery school in words, and their rank",
        "12960 × 8 words, 5 arms",
        Layout(members=("nursery.data",), columns=_NURSERY),
    ),
    "adult": _uci(
        2,
        "adult",
        "people in a census, words and numbers: income above 50K",
        "48842 × 14 words and numbers, 2 arms",
        Layout(members=("adult.data", "adult.test"), columns=_ADULT, arms=_INCOMES),
        "7537312dd56c2b98035880805ce99e68183a30ee468aa5329d6df0fbb3cc21bb",
    ),
    "bank-marketing": _uci(
        222,
        "bank+marketing",
        "calls of a bank, words and numbers: subscribed or not",
        "45211 × 16 words and numbers, 2 arms",
        Layout(members=("bank.zip!bank-full.csv",), label="y", separator=";"),
        "e0bf5f5de5b846e2f18e9d90606637267d46dfa260e0f17bb12e605db5efbeb4",
    ),
    "yeast": _uci(
        110,
        "yeast",
        "proteins of yeast, and where in the cell they are",
        "1484 × 8, 10 arms",
        Layout(members=("yeast.data",), columns=_YEAST, dropped="sequence", separator=None),
    ),
}
