"""What an imputer is: it fills in the reward that silence withheld."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from taciturn.agents import storage
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.part import Part
from taciturn.agents.table import NodeTable


class BaseImputer(Part, ABC):
    """An imputer of your own, a dataclass of its settings, fills in `impute`, and `learn` and `unlearn` if it learns.

    It is a parameter of an agent, which builds a copy of it. Columns that it adds to the table grow, are evicted from
    and saved without further code; other state goes into ``state_dict``, as for every part. Contexts are known by their
    node (``self._table.contexts[node]`` is the sparse row), arms by their index.
    """

    tag: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Register the class, so that files of agents with imputers that are defined elsewhere can be read."""
        storage.register(cls, dump=vars, restore=lambda state: _restored(cls, state))

    def build(self, table: NodeTable, rng: np.random.Generator) -> Part:
        """Take the table and the only source of randomness; returns the part that holds the state."""
        Part.__init__(self)  # not in the constructor: the imputer that is given to an agent holds its settings alone
        self._table = table
        self._rng = rng
        return self

    def add_context(self, node: int, neighbors: list[int] | None) -> None:
        """A context arrived; `neighbors` are nodes, or None where no graph is given."""

    def learn(self, example: Example) -> None:
        """A reward was observed."""

    def unlearn(self, example: Example) -> None:
        """Take the same example back."""

    @abstractmethod
    def impute(self, node: int, arm: int) -> float:
        """The reward, from 0 to 1, that `arm` would have earned at a context."""


def _restored(kind: type[BaseImputer], state: dict[str, Any]) -> BaseImputer:
    """An imputer as it was given to an agent: made with its settings, which its constructor checks.

    Settings that came up after the file was written have their defaults. One that is no dataclass gets what its
    constructor stored.
    """
    settings: Any = kind
    if is_dataclass(settings):
        return kind(**{field.name: state[field.name] for field in fields(settings) if field.name in state})
    imputer = kind.__new__(kind)
    vars(imputer).update(state)
    return imputer


@dataclass(kw_only=True, eq=False)
class RandomImputer(BaseImputer):
    """A random reward, uniform from 0 to 1: the baseline that shows what the bound is worth."""

    tag = "imputer/random"

    def impute(self, node: int, arm: int) -> float:
        """A random number."""
        return float(self._rng.random())
