"""What can be wrong: every error is one line that says what, where, and what would be right."""


class TacitError(ValueError):
    """Something given to tacit is wrong; the message says what, where, and what would be right."""


class InvalidContext(TacitError):
    """A context that is empty, not finite, of the wrong length or of the wrong kind."""


class InvalidReward(TacitError):
    """A reward that is neither None nor a number from 0 to 1."""


class UnknownArm(TacitError):
    """An arm that this agent does not have."""


class UnknownDecision(TacitError):
    """An id that this agent never gave out."""


class ForgottenDecision(UnknownDecision):
    """An id of a decision that was withdrawn, or that is older than the agent remembers."""


class AlreadyAnswered(TacitError):
    """Feedback that cannot be taken: the arm is known, or the agent cannot take back what it has learned."""


class UnknownName(TacitError):
    """A data set, method or preset that is not in its table."""


class InvalidData(TacitError):
    """A file or array that cannot be a data set."""


class DataUnavailable(TacitError):
    """A data set that is neither on this machine nor to be had from its sources."""
