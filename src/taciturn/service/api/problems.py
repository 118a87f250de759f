"""What is answered when something is wrong: `application/problem+json` (RFC 9457), without a word about internals."""

import logging
import re
import secrets
from typing import Any

import msgspec

from taciturn import errors
from taciturn.service.core.limits import TooMuch
from taciturn.service.core.operations import Misfit
from taciturn.service.core.session import CorrectionForbidden
from taciturn.service.journal.base import JournalUnavailable
from taciturn.service.journal.commit import Busy

log = logging.getLogger("taciturn.service")
TYPE = "/docs#problem-"
LONGEST = 500
CHALLENGE = [(b"www-authenticate", b"Bearer")]
FIELD = re.compile(r" - at `(?:key in )?\$?\.?(.*?)`$")


class Problem(errors.TaciturnError):
    """An answer that is not what was asked for."""

    def __init__(self, status: int, slug: str, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.slug, self.detail, self.field = status, slug, detail, field

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What goes with it: when to ask again, or that a key is wanted."""
        return [(b"retry-after", b"1")] if self.status in (429, 503) else CHALLENGE if self.status == 401 else []

    @property
    def body(self) -> bytes:
        """The JSON."""
        content: dict[str, Any] = {"type": TYPE + self.slug, "title": TITLES[self.slug], "status": self.status}
        content["detail"] = self.detail if len(self.detail) <= LONGEST else self.detail[:LONGEST] + "…"
        return msgspec.json.encode(content if self.field is None else content | {"field": self.field})


class Unavailable(Problem):
    """Not now: what was asked was not done, or it is not known to be durable. Ask again."""

    def __init__(self, detail: str) -> None:
        super().__init__(503, "unavailable", detail)


TITLES = {
    "not-json": "The body is not JSON",
    "validation-error": "Something in the request is not as it must be",
    "no-key": "A key is needed",
    "not-allowed": "This key may not do that",
    "unknown-route": "There is nothing here",
    "unknown-agent": "There is no such agent",
    "unknown-decision": "There is no such decision",
    "unknown-arm": "There is no such arm",
    "wrong-method": "That cannot be done here",
    "name-taken": "There is an agent of this name",
    "already-answered": "The feedback cannot be changed",
    "forgotten-decision": "The decision is forgotten",
    "too-large": "The body is too large",
    "wrong-type": "The body has another content type than is taken here",
    "wrong-host": "This host is not served",
    "invalid-context": "The context does not fit",
    "invalid-reward": "The reward does not fit",
    "invalid-file": "The file is not that of an agent",
    "unknown-name": "There is no such kind or parameter",
    "limit-exceeded": "There is no room for it now",
    "internal": "Something went wrong inside",
    "unavailable": "Not available now",
}

# An error of the library, the status and the name of the problem; the first that fits.
_KNOWN: tuple[tuple[type[Exception], int, str, str | None], ...] = (
    (errors.ForgottenDecision, 410, "forgotten-decision", None),
    (errors.UnknownDecision, 404, "unknown-decision", None),
    (errors.AlreadyAnswered, 409, "already-answered", None),
    (CorrectionForbidden, 409, "already-answered", None),
    (errors.InvalidContext, 422, "invalid-context", "context"),
    (errors.InvalidReward, 422, "invalid-reward", "reward"),
    (errors.InvalidData, 422, "invalid-file", None),
    (errors.UnknownName, 422, "unknown-name", "params"),
    (TooMuch, 429, "limit-exceeded", None),
    (Busy, 429, "limit-exceeded", None),
)


def problem_of(error: BaseException) -> Problem:
    """The answer to an error: what the caller can mend in full, of all else only a number to look for in the log."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        field = FIELD.search(str(error))
        return Problem(422, "validation-error", FIELD.sub("", str(error)), field.group(1) if field else None)
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Problem(400, "not-json", "the body could not be read as JSON")
    if isinstance(error, Misfit):
        return Problem(422, "validation-error", str(error), error.field)
    if isinstance(error, TimeoutError):
        return Unavailable("it took too long; it may be done all the same")
    if isinstance(error, JournalUnavailable):
        return Unavailable("the journal cannot be written now")
    for kind, status, slug, field_name in _KNOWN:
        if isinstance(error, kind):
            return Problem(status, slug, str(error), field_name)
    if isinstance(error, errors.TaciturnError):
        return Problem(422, "validation-error", str(error))
    number = secrets.token_hex(6)
    log.error("request %s failed", number, exc_info=error)
    return Problem(500, "internal", f"request {number}; the log of the service says more")
