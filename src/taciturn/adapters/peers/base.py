"""What all peers share: a bandit of another library behind `decide` and `feedback`.

A library learns events, one context, arm and reward each, in the order in which rewards came. Whatever it cannot
follow, such as another scale of the contexts, more features or another arm, is met by a new one that learns all events
again: a scale is renewed each time the contexts have grown by half, so that this costs a small multiple of learning
them once.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.adapters.peers.library import Events, Held, Library
from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.part import Part, Scores, Sizes, require
from taciturn.agents.table import LABELLED
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.system import one_thread
from taciturn.validate import check_choice

SEEDS = 2**31
"""Libraries take seeds above 0 and below this."""


def library_seed(seed: int) -> int:
    """The seed of the first library that an agent of this seed makes."""
    return 1 + seed % (SEEDS - 1)


@dataclass(kw_only=True, eq=False)
class Peer(BaseAgent):
    """A bandit of another library.

    Contexts are read and scaled as for taciturn's own agents. Silence is skipped, as these libraries have no notion of
    it, unless it is given as a constant reward. Feedback is final.

    Arguments, beside those of `BaseAgent`:
        silence: "ignore", or the constant reward that is learned in silence.
        ties: "first" takes the arm that the library takes; "balance" the one chosen least among equal scores.
        all_arms: where one arm is right, tell the library after a reward of 1 that the other arms would have had 0, as
            taciturn's own agents learn it; it is always told so of labelled rows. Otherwise it hears of the chosen arm.
    """

    package: ClassVar[str]
    """The name of the library on the package index."""

    stochastic: ClassVar[bool] = False
    """Whether scores are the probabilities that an arm is drawn by."""

    refitted: ClassVar[bool] = False
    """Whether the library learns all events afresh each time."""

    tells_all: ClassVar[bool] = True
    """Whether the library can be told the rewards of several arms at one context."""

    resumes: ClassVar[bool] = False
    """Whether learning all events again gives the same state, bit for bit, so that agents can be saved and copied."""

    silence: str | float = "ignore"
    ties: str = "first"
    all_arms: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_choice("all_arms", self.all_arms, (True, False) if self.tells_all else (False,))

    @abstractmethod
    def _new_library(self, n_arms: int, n_features: int) -> Library:
        """Make the library's own bandit."""

    def _library_nbytes(self, sizes: Sizes) -> float:
        """Bytes that the library holds."""
        return 0.0

    def _is_due(self, waiting: int, learned: int) -> bool:
        """Whether a library that has learned so many examples is to learn those that wait."""
        return True

    @property
    def _library_seed(self) -> int:
        """The seed of the library: the agent's own, and another for each that is made in place of the first."""
        builds = self._held.builds
        return int(np.random.default_rng([self.seed, builds]).integers(1, SEEDS)) if builds else library_seed(self.seed)

    def _build(self) -> dict[str, Part]:
        self._turns = self._table.column(
            "turn", np.int64, fill=-1
        )  # the place of each example in the order of learning
        self._held = Held(self._flush, self._library_nbytes, refitted=self.refitted)
        return {"library": self._held}

    def _score(self, node: int) -> Scores:
        with one_thread():
            library = self._library()
            with self._failing("score the context"):
                scores = library.scores(self._contexts.matrix(node, node + 1))
        return np.asarray(scores, np.float64), np.zeros(len(self._arm_names))

    def _learn(self, example: Example) -> None:
        self._turns.data[example.node] = self._held.learned
        self._held.learned += 1
        self._held.waiting.append(example)

    def _flush(self) -> None:
        """Have a library that learns as it goes learn all that waits."""
        if not self.refitted and self._held.waiting:
            self._library()

    def _library(self) -> Library:
        """The library, once it has learned what it is to learn now."""
        held, waiting = self._held, len(self._held.waiting)
        if held.library is None:
            held.library = self._new_library(len(self._arm_names), self._contexts.n_features)
            held.builds += 1
        if held.stale or (waiting and self._is_due(waiting, held.learned - waiting)):
            examples = self._all_examples() if held.stale or self.refitted else held.waiting
            held.stale, held.waiting = False, []
            if examples:
                self._have_learn(held.library, self._events(examples))
        return held.library

    def _have_learn(self, library: Library, events: Events) -> None:
        """Have a library learn events; where it fails, a new one is to learn everything, so that none is lost."""
        try:
            with self._failing("learn"):
                library.learn(events)
        except BaseException:
            self._held.discard()
            raise

    @contextmanager
    def _failing(self, task: str) -> Iterator[None]:
        """Turn what a library raises into one line."""
        try:
            yield
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise TaciturnError(
                f"{self.package} cannot {task} ({reason}); very large numbers are the usual cause"
            ) from error

    def _all_examples(self) -> list[Example]:
        """All that is held and learned, in the order of learning."""
        return sorted(self._lifecycle.examples(), key=lambda example: int(self._turns.data[example.node]))

    def _events(self, examples: Iterable[Example]) -> Events:
        """What a library is told of examples."""
        told = [(example.node, arm, reward) for example in examples for arm, reward in self._told(example).items()]
        nodes, arms, rewards = (np.array(part) for part in zip(*told, strict=True))
        indptr, columns, values = self._contexts.some(nodes)
        rows = sp.csr_matrix((values, columns, indptr), shape=(len(nodes), self._contexts.n_features))
        return Events(
            rows, arms, rewards.astype(np.float64), np.nan_to_num(self._table.propensity.data[nodes], nan=1.0)
        )

    def _told(self, example: Example) -> dict[int, float]:
        """The arms that a library hears of, each with its reward."""
        labelled = self._table.state.data[example.node] == LABELLED
        several = self.tells_all and (labelled or self.all_arms)
        arms = np.flatnonzero(example.mask).tolist() if several else [example.arm]
        told = {arm: float(example.targets[arm]) for arm in arms}
        for arm, model in self._held.copies(int(self._turns.data[example.node])):
            if model in told:
                told[arm] = told[model]
        return told

    def _choose(self, bounds: NDArray[np.float64]) -> tuple[int, float]:
        if not np.isfinite(bounds.max()) or np.isnan(bounds).any():
            raise InvalidContext("the context overflows: an arm was scored NaN or infinite")
        if self.stochastic:
            return self._policy.draw(bounds)
        if self.ties == "balance":
            return super()._choose(bounds)
        arm = int(np.argmax(bounds))
        return (arm, 1.0) if self._policy.deterministic else self._policy.sample(bounds, arm)

    # Copies and files.

    @property
    def can_be_saved(self) -> bool:
        """Whether the library resumes exactly, and nothing that it learned has been evicted."""
        return self.resumes and self._lifecycle.nothing_evicted

    def save(self, path: str | Path) -> None:
        """Write the agent to one file; `TaciturnError` where its library would not go on exactly as before."""
        self._require_resumes("saved")
        super().save(path)

    def fork(self, seed: int | None = None) -> Self:
        """An independent copy; `TaciturnError` where its library would not go on exactly as before."""
        self._require_resumes("copied")
        if self._root is None:
            return super().fork(seed)
        held = self._held
        kept = held.library, held.stale, held.waiting
        held.discard()  # the copy learns everything again
        try:
            return super().fork(seed)
        finally:
            held.library, held.stale, held.waiting = kept

    def _require_resumes(self, done: str) -> None:
        if not self.resumes:
            raise TaciturnError(f"{type(self).__name__} cannot be {done}: {self.package} does not resume exactly")
        if not self._lifecycle.nothing_evicted:
            raise TaciturnError(f"{type(self).__name__} cannot be {done}: max_nodes has evicted what it learned")

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The agent of a `state`, where its library resumes exactly."""
        require(cls.resumes, f"{cls.package} does not resume exactly")
        return super().from_state_dict(state)
