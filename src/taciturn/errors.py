"""What can be wrong: every error is one line that says what, where, and what would be right."""


def how_to_install(extra: str) -> str:
    """The command that brings an optional part. The one place to change on the day that taciturn is on the index."""
    return f"pip install '.[{extra}]' in a checkout of taciturn"


class TaciturnError(ValueError):
    """Something given to taciturn is wrong; the message says what, where, and what would be right."""


class InvalidContext(TaciturnError):
    """A context that is empty, not finite, of the wrong length or of the wrong kind."""


class InvalidReward(TaciturnError):
    """A reward that is neither None nor a number from 0 to 1."""


class UnknownArm(TaciturnError):
    """An arm that this agent does not have."""


class UnknownDecision(TaciturnError):
    """An id that this agent never gave out."""


class ForgottenDecision(UnknownDecision):
    """An id of a decision that was withdrawn, or that is older than the agent remembers."""


class AlreadyAnswered(TaciturnError):
    """Feedback that cannot be taken: the arm is known, or the agent cannot take back what it has learned."""


class UnknownName(TaciturnError):
    """A data set, method or preset that is not in its table."""


class InvalidData(TaciturnError):
    """A file or array that cannot be a data set."""


class DataUnavailable(TaciturnError):
    """A data set that is neither on this machine nor to be had from its sources."""
