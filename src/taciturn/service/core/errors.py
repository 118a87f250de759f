"""Errors of the service. `api/problems.py` maps each to an HTTP status."""

import logging
import secrets

from taciturn.errors import TaciturnError

log = logging.getLogger("taciturn.service")


class ValidationError(TaciturnError):
    """A request with a wrong value; `field` says where, None if it is the request as a whole."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownAgent(TaciturnError):
    """The service has no agent of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no agent {name!r}")


class NameTaken(TaciturnError):
    """A new agent with the name of an existing one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is an agent {name!r}")


class CorrectionForbidden(TaciturnError):
    """A second, different reward for a decision of an agent that was created without corrections."""


class LimitExceeded(TaciturnError):
    """A limit that depends on the current state is reached; a retry can succeed later."""


class Unavailable(TaciturnError):
    """The operation was not done, or is not known to be durable; retry."""


class NotQueued(Unavailable):
    """The operation was not even queued, since the agent is being stopped."""


class SetAside(TaciturnError):
    """An agent that cannot be restored from the journal, or fails again and again: it can be deleted, nothing else."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"agent {name!r} is set aside: {reason}")


class HalfDone(Exception):
    """An agent refused an operation, for this reason, after it had changed: it must be restored from the journal."""

    def __init__(self, reason: TaciturnError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class InternalError(TaciturnError):
    """An error that was not foreseen. The message has only a number, under which the log has the traceback."""


def internal_error(error: BaseException) -> InternalError:
    """Log an error with its traceback under a random number; returns the error for the caller."""
    number = secrets.token_hex(6)
    log.error("request %s failed", number, exc_info=error)
    return InternalError(f"request {number}; the log of the service says more")
