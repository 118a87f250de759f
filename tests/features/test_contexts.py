"""Every kind of value and every container gives the decision that the plain mapping or array gives, in every agent."""

import dataclasses
import datetime as dt
from collections import OrderedDict
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from starlette.testclient import TestClient

import taciturn
from service_kit import MemoryJournal
from taciturn.client import Client
from taciturn.registry import METHODS
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service

NAMES = list(METHODS)
NAN = float("nan")
DAY, MOMENT = dt.date(2026, 11, 16), dt.datetime(2026, 11, 16, 9, 30)  # noqa: DTZ001 - as most people have them

# Values that mean the same, the plain one first.
VALUES = {
    "number": [41.0, 41, np.float64(41), np.float32(41), np.float16(41), np.int64(41), Decimal(41), Fraction(41)],
    "fraction": [0.5, np.float32(0.5), Decimal("0.5"), Fraction(1, 2)],
    "truth": [True, np.True_, 1, 1.0],
    "duration": [90.0, dt.timedelta(seconds=90), np.timedelta64(90, "s"), pd.Timedelta(seconds=90)],
    "category": ["DE", np.str_("DE"), " DE "],
    "missing": [None, NAN, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "s"), ""],
    "text": ["where is my parcel", np.str_("where is my parcel")],
    "tags": [["late", "new"], ("late", "new"), {"late", "new"}, frozenset({"new", "late"}), np.array(["late", "new"])],
    "vector": [[0.5, 1.0, -2.0], (0.5, 1, -2), np.array([0.5, 1, -2]), np.array([0.5, 1, -2], np.float32)],
    "date": ["2026-11-16", DAY, np.datetime64("2026-11-16"), pd.Timestamp("2026-11-16"), dt.datetime(2026, 11, 16)],  # noqa: DTZ001
    "moment": ["2026-11-16T09:30", MOMENT, np.datetime64(MOMENT, "ns"), pd.Timestamp(MOMENT), "2026-11-16 09:30:00"],
    "nested": [
        {"size": 3.0, "kind": "shop"},
        OrderedDict(size=3, kind="shop"),
        MappingProxyType({"size": 3, "kind": "shop"}),
    ],
}
SAME_VALUES = [(kind, value) for kind, (_, *others) in VALUES.items() for value in others]

# Containers of one row of numbers, and of one row with names.
ROW = np.array([0.5, 0.0, -2.0, 1.0])
NAMED = {"age": 41.0, "country": "DE", "note": "where is my parcel"}


class Row(NamedTuple):
    age: float
    country: str
    note: str


@dataclasses.dataclass
class Case:
    age: float
    country: str
    note: str


class Tensor:
    """What taciturn uses of a tensor of torch; one that wants gradients cannot be converted before it is detached."""

    def __init__(self, array, dtype="torch.float32", detached=False):
        self._array, self.dtype, self._detached = np.asarray(array), dtype, detached

    @property
    def is_sparse(self):
        return False

    def detach(self):
        return Tensor(self._array, self.dtype, detached=True)

    def cpu(self):
        return self

    def float(self):
        return Tensor(self._array, "torch.float32", self._detached)

    def __array__(self, dtype=None, copy=None):
        if not self._detached or self.dtype == "torch.bfloat16":
            raise TypeError("a tensor that wants gradients, or bfloat16, is no array")
        return self._array.astype(dtype or np.float32)


def tensors():
    try:
        import torch
    except ImportError:
        return [Tensor(ROW), Tensor(ROW, "torch.bfloat16"), Tensor(ROW[None])]
    plain = torch.tensor(ROW, dtype=torch.float32)
    return [plain, plain.requires_grad_(), plain.detach().bfloat16(), plain.detach()[None]]


ROWS = {
    "list": ROW.tolist(),
    "tuple": tuple(ROW.tolist()),
    "list of numpy numbers": list(ROW),
    "one row of a matrix": ROW[None],
    "float32": ROW.astype(np.float32),
    "float16": ROW.astype(np.float16),
    "not contiguous": np.repeat(ROW, 2)[::2],
    "objects": ROW.astype(object),
    **{f"{kind.__name__}": kind(ROW[None]) for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix)},
    **{f"{kind.__name__}": kind(ROW[None]) for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.dok_array)},
    "sparse with one dimension": sp.coo_array(ROW),
    "pandas series": pd.Series(ROW),
    "pandas frame without names": pd.DataFrame(ROW[None]),
    "polars series": pl.Series(ROW),
    **{f"tensor {i}": tensor for i, tensor in enumerate(tensors())},
}
WHOLE_ROWS = {
    "int64": np.array([1, 0, 1]),
    "int8": np.array([1, 0, 1], np.int8),
    "bool": np.array([True, False, True]),
    "list of truth values": [True, False, True],
    "list of whole numbers": [1, 0, 1],
}
NAMED_ROWS = {
    "ordered": OrderedDict(NAMED),
    "read-only": MappingProxyType(NAMED),
    "namedtuple": Row(**NAMED),
    "dataclass": Case(**NAMED),
    "pandas series": pd.Series(NAMED),
    "pandas frame": pd.DataFrame([NAMED]),
    "row of a pandas frame": pd.DataFrame([NAMED, NAMED]).iloc[1],
    "polars frame": pl.DataFrame([NAMED]),
    "polars lazy frame": pl.DataFrame([NAMED]).lazy(),
    "polars row": pl.DataFrame([NAMED]).row(0, named=True),
    "arrow table": pa.Table.from_pylist([NAMED]),
    "arrow record batch": pa.RecordBatch.from_pylist([NAMED]),
}
BATCH = [
    NAMED,
    {"age": None, "country": "FR", "note": "it came late"},
    {"age": 7.0, "country": "DE", "note": "why so late"},
]
BATCHES = {
    "tuple": tuple(BATCH),
    "columns": {name: [context[name] for context in BATCH] for name in NAMED},
    "pandas": pd.DataFrame(BATCH),
    "polars": pl.DataFrame(BATCH),
    "arrow table": pa.Table.from_pylist(BATCH),
    "arrow record batch": pa.RecordBatch.from_pylist(BATCH),
}
MATRIX = np.array([[0.5, 0.0, 1.0], [0.0, 2.0, -1.0], [1.0, 1.0, 1.0]])
MATRICES = {
    "lists": MATRIX.tolist(),
    "float32": MATRIX.astype(np.float32),
    "csr": sp.csr_matrix(MATRIX),
    "coo array": sp.coo_array(MATRIX),
    "pandas": pd.DataFrame(MATRIX),
    "tensor": Tensor(MATRIX),
}

# What is decided, by a fresh agent that has learned from two decisions before.


def make(name):
    return taciturn.make(name, arms=["a", "b"], seed=0)


def outcome(agent, context):
    """The scores of two decisions on a context, with a reward between them."""
    first = agent.decide(context)
    agent.feedback(first.id, 1)
    return [first.arm, *first.scores, *agent.decide(context).scores]


def outcomes(agent, contexts):
    return [(made.id, made.arm, *made.scores) for made in agent.decide_batch(contexts)]


def with_kind(agent, kind):
    """An agent that has seen the plain value, so that a missing one has a column."""
    agent.feedback(agent.decide({"x": VALUES[kind][0], "y": 2.0}).id, 0)
    return agent


@pytest.mark.parametrize("name", NAMES)
def test_values_of_every_kind(name):
    for kind, value in SAME_VALUES:
        plain = VALUES[kind][0]
        found, expected = (outcome(with_kind(make(name), kind), {"x": x, "y": 1.0}) for x in (value, plain))
        assert found == expected, (kind, value)


@pytest.mark.parametrize("name", NAMES)
def test_containers_of_one_context(name):
    for containers, plain in ((ROWS, ROW), (WHOLE_ROWS, np.array([1.0, 0.0, 1.0])), (NAMED_ROWS, NAMED)):
        expected = outcome(make(name), plain)
        for container, given in containers.items():
            assert outcome(make(name), given) == expected, container


@pytest.mark.parametrize("name", NAMES)
def test_containers_of_a_batch(name):
    for containers, plain in ((BATCHES, BATCH), (MATRICES, MATRIX)):
        expected = outcomes(make(name), plain)
        for container, given in containers.items():
            assert outcomes(make(name), given) == expected, container


@pytest.mark.parametrize("scaling", ["auto", "l1", "none"])
def test_a_first_context_without_any_value_is_decided_on(scaling):
    for context in ({"age": None, "country": NAN}, {"id": 7}, {"tags": []}):
        agent = taciturn.LinUCB(arms=2, scaling=scaling, features={"ignore": ["id"]})
        agent.feedback(agent.decide(context).id, 1)
        agent.add_arm("third")
        agent.feedback(agent.decide({"age": 41.0}).id, 1)
        assert agent.decide({"age": None, "country": None}).id == 2


def test_the_order_of_a_set_does_not_matter():
    words = [f"word{number}" for number in range(30)]
    for given in (set(words), frozenset(reversed(words))):
        agent = make("linucb")
        agent.decide({"tags": given})
        assert list(agent.feature_names) == [f"tags={word}" for word in sorted(words)]


def test_a_generator_is_a_batch():
    assert outcomes(make("linucb"), (context for context in BATCH)) == outcomes(make("linucb"), BATCH)


@pytest.mark.parametrize("name", NAMES)
def test_text_is_a_context(name):
    for text in ("where is my parcel", np.str_("where is my parcel")):
        assert outcome(make(name), text) == outcome(make(name), {"text": "where is my parcel"})
    texts = ["where is my parcel", "it came late"]
    for given in (pd.Series(texts), pl.Series(texts), pa.array(texts), np.array(texts)):
        assert outcomes(make(name), given) == outcomes(make(name), [{"text": text} for text in texts])


# Over HTTP, for what JSON can say: by the client, which makes JSON of it.


@pytest.fixture(scope="module")
def client():
    service = Service(MemoryJournal())
    with closing(service), TestClient(create_app(service), base_url="http://localhost") as http:
        yield Client("http://localhost", http=http)


@pytest.fixture
def remote(client):
    """Makes fresh agents of the service."""
    names = []

    def make_remote():
        names.append(f"x{len(names)}")
        return client.create(names[-1], arms=["a", "b"], kind="linucb", seed=0)

    yield make_remote
    for name in names:
        client.delete(name)


def test_values_of_every_kind_over_http(remote):
    for kind, (plain, *_) in VALUES.items():
        expected = outcome(with_kind(make("linucb"), kind), {"x": plain, "y": 1.0})
        for value in VALUES[kind]:
            assert outcome(with_kind(remote(), kind), {"x": value, "y": 1.0}) == expected, (kind, value)


def test_containers_over_http(remote):
    for containers, plain in (
        (ROWS, ROW),
        (WHOLE_ROWS, [1.0, 0.0, 1.0]),
        (NAMED_ROWS, NAMED),
        ({"text": "a b"}, "a b"),
    ):
        expected = outcome(make("linucb"), plain)
        for container, given in containers.items():
            assert outcome(remote(), given) == expected, container


def test_batches_over_http(remote):
    for containers, plain in ((BATCHES, BATCH), (MATRICES, MATRIX)):
        expected = outcomes(make("linucb"), plain)
        for container, given in containers.items():
            assert outcomes(remote(), given) == expected, container
