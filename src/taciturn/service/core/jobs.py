"""Jobs that are queued for an agent, and how their results reach the callers' futures."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taciturn.errors import TaciturnError
from taciturn.service.core.errors import Unavailable
from taciturn.service.core.operations import Decide, Op, RewardBatch
from taciturn.service.core.session import Session
from taciturn.service.journal.base import Entry, Fenced

AnyFuture = asyncio.Future[Any] | Future[Any]
Query = Callable[[Session], Any]
"""A function that reads a session and changes nothing."""

log = logging.getLogger("taciturn.service")


class Refusal(NamedTuple):
    """A reward of a batch that was refused, and why."""

    id: int
    error: TaciturnError


class RewardBatchResult(NamedTuple):
    """Number of rewards of a batch that were taken, and those that were refused."""

    taken: int
    refused: list[Refusal]


@dataclass(slots=True, eq=False)
class Job:
    """An operation or a query for one agent, and the future of its result.

    `raw` is the JSON of a request to decide. A batch of rewards can take several turns: `done` counts the rewards that
    the session of this `generation` has processed.
    """

    what: Op | Query
    future: AnyFuture
    raw: bytes | None = None
    done: int = 0
    generation: int = -1
    refused: list[Refusal] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of decisions or rewards that are asked for; 1 for everything else."""
        if isinstance(self.what, RewardBatch):
            return len(self.what.rewards)
        return len(self.what.request.all_contexts) if isinstance(self.what, Decide) else 1


class Result(NamedTuple):
    """What a future gets: a value, or an error if that is not None."""

    future: AnyFuture
    value: Any
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class Batch:
    """Journal entries that are appended together, and the results that wait for the append."""

    entries: list[Entry] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    deletes_agent: bool = False

    def fail(self, future: AnyFuture, error: Exception) -> None:
        """Add an error as a result."""
        self.results.append(Result(future, None, error))


def unavailable(results: list[Result], cause: Exception | None = None) -> list[Result]:
    """Replace every result with `Unavailable`; a cause that retrying does not cure is named."""
    error = Unavailable(str(cause) if isinstance(cause, Fenced) else "the journal could not be written")
    return [Result(result.future, None, error) for result in results]


def resolve(results: list[Result]) -> None:
    """Set the results of all futures, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Result]] = {}
    for result in results:
        if isinstance(result.future, Future):
            _set_results([result])
        else:
            by_loop.setdefault(result.future.get_loop(), []).append(result)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_results, some)
        except RuntimeError:  # the loop is closed, so nobody awaits these futures
            log.debug("%d results came after their event loop was closed", len(some))


def _set_results(results: list[Result]) -> None:
    for future, value, error in results:
        if not future.done():
            future.set_result(value) if error is None else future.set_exception(error)
