"""Which decision the id of a request stands for, also where the first one was withdrawn.

Where an upstream fails, the decision is withdrawn and another one is made for the same request. An id stands for one
operation in the journal, so the later decisions have ids that follow from that of the request: a retry and a thumb find
what was answered, after a restart too.
"""

import hashlib
from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np

from taciturn.router.asks import Ask
from taciturn.service.core.operations import Answered
from taciturn.service.core.remembered import MAX_CHARACTERS
from taciturn.service.core.session import Session

MAX_ATTEMPTS = 50
"""How many decisions can be made for one id."""


class Attempts(NamedTuple):
    """The decisions that were made for an id.

    `latest` is the last that stands, or the last of all if none does, None if there was none; `stands` says whether it
    does; `free` is the id for one more, None if there were too many.
    """

    latest: int | None
    stands: bool
    free: str | None


def attempts_of(session: Session, request_id: str) -> Attempts:
    """What an agent knows of the id of a request."""
    latest, stands = None, False
    for attempt in range(MAX_ATTEMPTS):
        name = _name(request_id, attempt)
        if (known := session.requests.get(name)) is None:
            return Attempts(latest, stands, name)
        held = known.first_id in session.agent.decisions
        if held or not stands:
            latest, stands = known.first_id, held
    return Attempts(latest, stands, None)


def _name(request_id: str, attempt: int) -> str:
    """The id under which an attempt is in the journal; as long as an id may be, whatever the request's own."""
    if attempt == 0:
        return request_id
    return "attempt-" + hashlib.blake2b(f"{attempt} {request_id}".encode(), digest_size=16).hexdigest()


def known_decision(session: Session, ask: Ask, arms: Container[object]) -> tuple[Answered | None, str | None]:
    """The decision that a request of this id was answered with, and the id under which another one would be made.

    One whose arm is not among `arms`, or cannot be chosen now, is not answered again. Raises an error if that request
    had another text or session.
    """
    if ask.request_id is None:
        return None, None
    known = attempts_of(session, ask.request_id)
    if known.latest is not None and known.stands:
        given = {"text": ask.text[:MAX_CHARACTERS]} | ({} if ask.session is None else {"session": ask.session})
        if session.remembered.values.get(known.latest) != given:
            raise ask.reused("for another text")
        made = session.agent.decision(known.latest)
        if made.arm in arms and made.arm not in ask.without:
            plain = _plain(made.scores), _plain(made.widths)
            return Answered(made.id, made.arm, *plain, made.propensity), known.free  # type: ignore[arg-type]
    if known.free is None:
        raise ask.reused("too often")
    return None, known.free


def _plain(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
