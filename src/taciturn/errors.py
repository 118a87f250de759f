"""Exceptions; every message is one line that says what was wrong, where, and what would be right."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an optional part; to be changed once taciturn is on the package index."""
    return f"pip install '.[{extra}]' in a checkout of taciturn"


class TaciturnError(ValueError):
    """Base class: an invalid argument, file or name."""


class InvalidContext(TaciturnError):
    """A context that cannot be read: `feature` is the name of what is wrong, `row` its place in a batch, if known."""

    def __init__(self, message: str, *, feature: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.feature, self.row = feature, row


class InvalidReward(TaciturnError):
    """A reward that is neither None nor a number from 0 to 1."""


class UnknownArm(TaciturnError):
    """An arm that this agent does not have."""


class UnknownDecision(TaciturnError):
    """An id that this agent has not assigned."""


class ForgottenDecision(UnknownDecision):
    """The id of a decision that was withdrawn or evicted."""


class AlreadyAnswered(TaciturnError):
    """Feedback for a decision whose feedback is final: it is labelled, or the agent cannot undo what it learned."""


class RequestIdReused(TaciturnError):
    """A request id that was used before, for another request."""


class UnknownName(TaciturnError):
    """A data set, method or preset that is not in its table."""


class InvalidData(TaciturnError):
    """A file or array that is not a valid data set."""


class DataUnavailable(TaciturnError):
    """A data set that is neither on this machine nor available from its sources."""


class ProgramFailed(TaciturnError):
    """A program as an agent that cannot be started, ended, took too long, or answered otherwise than was agreed."""


class EmbeddingFailed(TaciturnError):
    """An embedder that did not answer, or whose answer is not one finite vector of the same length for each text."""
