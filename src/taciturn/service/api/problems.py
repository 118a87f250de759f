"""Errors over HTTP: `application/problem+json` (RFC 9457), with one table from error to status and slug.

A problem has no details of the implementation; for an error that was not foreseen it has a number to find in the log.
"""

import re
from typing import Any

import msgspec

from taciturn import errors
from taciturn.service.core.errors import (
    CorrectionForbidden,
    InternalError,
    LimitExceeded,
    NameTaken,
    SetAside,
    Unavailable,
    UnknownAgent,
    ValidationError,
    internal_error,
)
from taciturn.service.journal.base import JournalUnavailable
from taciturn.service.journal.commit import Busy

TYPE = "/docs#problem-"
MEDIA_TYPE = "application/problem+json"
MAX_DETAIL = 500
FIELD = re.compile(r" - at `(?:key in )?\$?\.?(.*?)`$")
"""Where msgspec says which field is wrong."""

TITLES = {
    "not-json": "The body is not JSON",
    "validation-error": "A value in the request is not valid",
    "no-key": "A key is needed",
    "not-allowed": "This key may not do that",
    "cross-site": "A form of another site was sent",
    "unknown-route": "There is nothing at this path",
    "unknown-agent": "There is no such agent",
    "unknown-decision": "There is no such decision",
    "unknown-arm": "There is no such arm",
    "wrong-method": "This method is not allowed at this path",
    "name-taken": "There is an agent of this name",
    "already-answered": "The feedback cannot be changed",
    "request-id-reused": "The request id was used for another request",
    "forgotten-decision": "The decision was withdrawn or evicted",
    "too-large": "The body is too large",
    "export-too-large": "The file of this agent could not be imported again",
    "wrong-type": "The content type of the body is not accepted here",
    "wrong-host": "This host is not served",
    "invalid-context": "The context is not valid for this agent",
    "invalid-reward": "The reward is not valid",
    "invalid-file": "The file does not hold an agent that can be loaded",
    "unknown-name": "There is no such kind or parameter",
    "limit-exceeded": "A limit is reached; retry later",
    "internal": "An internal error",
    "set-aside": "The agent cannot be used; an operator must look at it",
    "unavailable": "Not available now; retry later",
    "upstream-failed": "The server behind an arm did not answer as it should",
    "upstream-timeout": "The server behind an arm did not answer in time",
}
"""The kinds of problems by slug."""


class Problem(errors.TaciturnError):
    """An error as an HTTP response."""

    def __init__(self, status: int, slug: str, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.slug, self.detail, self.field = status, slug, detail, field

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Additional headers: when to retry, or that a key is needed."""
        if self.status in (429, 503):
            return [(b"retry-after", b"1")]
        return [(b"www-authenticate", b"Bearer")] if self.status == 401 else []

    @property
    def body(self) -> bytes:
        """The problem as JSON."""
        content: dict[str, Any] = {"type": TYPE + self.slug, "title": TITLES[self.slug], "status": self.status}
        content["detail"] = self.detail if len(self.detail) <= MAX_DETAIL else self.detail[:MAX_DETAIL] + "…"
        return msgspec.json.encode(content if self.field is None else content | {"field": self.field})


_TABLE: tuple[tuple[type[Exception], int, str, str | None], ...] = (
    (UnknownAgent, 404, "unknown-agent", None),
    (NameTaken, 409, "name-taken", "name"),
    (errors.ForgottenDecision, 410, "forgotten-decision", None),
    (errors.UnknownDecision, 404, "unknown-decision", None),
    (errors.UnknownArm, 404, "unknown-arm", None),
    (errors.AlreadyAnswered, 409, "already-answered", None),
    (CorrectionForbidden, 409, "already-answered", None),
    (errors.RequestIdReused, 409, "request-id-reused", "request_id"),
    (errors.InvalidReward, 422, "invalid-reward", "reward"),
    (errors.InvalidData, 422, "invalid-file", None),
    (errors.UnknownName, 422, "unknown-name", "params"),
    (LimitExceeded, 429, "limit-exceeded", None),
    (Busy, 429, "limit-exceeded", None),
    (InternalError, 500, "internal", None),
    (Unavailable, 503, "unavailable", None),
    (SetAside, 503, "set-aside", None),
    (errors.TaciturnError, 422, "validation-error", None),
)
"""Status, slug and field of each error; the first class that matches counts."""


def _field_of(error: errors.InvalidContext) -> str:
    """Where a context is wrong: "context", "context.age" or "contexts[3].age"."""
    context = "context" if error.row is None else f"contexts[{error.row}]"
    return context if error.feature is None else f"{context}.{error.feature}"


def problem_of(error: BaseException) -> Problem:
    """The problem that an error becomes; one that was not foreseen is logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ValidationError):
        return Problem(422, "validation-error", str(error), error.field)
    if isinstance(error, errors.InvalidContext):
        return Problem(422, "invalid-context", str(error), _field_of(error))
    if isinstance(error, msgspec.ValidationError):
        field = FIELD.search(str(error))
        return Problem(422, "validation-error", FIELD.sub("", str(error)), field.group(1) if field else None)
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Problem(400, "not-json", "the body could not be read as JSON")
    if isinstance(error, TimeoutError):
        return Problem(503, "unavailable", "the request took too long; it may still be carried out")
    if isinstance(error, JournalUnavailable):
        return Problem(503, "unavailable", "the journal cannot be written now")
    for kind, status, slug, field_name in _TABLE:
        if isinstance(error, kind):
            return Problem(status, slug, str(error), field_name)
    return problem_of(internal_error(error))
