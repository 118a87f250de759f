"""The router itself: decides on texts with an agent of the service, keeps to budget and sessions, and takes thumbs."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from taciturn.errors import UnknownDecision
from taciturn.router.asks import Ask, Routed
from taciturn.router.attempts import attempts_of, known_decision
from taciturn.router.budget import affordable
from taciturn.router.config import RouterConfig
from taciturn.router.reasons import in_words, reasons
from taciturn.router.sessions import Sessions, Turn
from taciturn.router.thumbs import Thumb
from taciturn.service.core.errors import LimitExceeded, ValidationError
from taciturn.service.core.operations import Answered, Decide, DecideRequest, Reward, Withdraw
from taciturn.service.core.service import Service
from taciturn.service.core.session import Session

log = logging.getLogger("taciturn.router")
WITHDRAWN_AT_ONCE = 4
"""Withdrawals that may wait for the agent at a time.

Each takes longer than a decision, and what is asked next waits behind those that are queued: where an upstream fails
for hundreds of requests at once, their withdrawals wait here, and other requests go between them.
"""

_decode_answer = msgspec.json.Decoder(Answered).decode


class Look(NamedTuple):
    """What is read of the agent before a decision.

    That is the decision of an earlier request of this id, the id under which a new one is made, and how often each arm
    was chosen.
    """

    known: Answered | None
    request_id: str | None
    counts: dict[str, int]


class Desk:
    """Routes texts to arms.

    Arguments:
        config: what the file says.
        service: has the agent, which is called `config.name` and has the arms of the file.
        begun: how often each arm was chosen when the budget began.
        since: the id of the first decision in the mode that the router is in; sessions do not stay with earlier ones.
    """

    def __init__(self, config: RouterConfig, service: Service, begun: Mapping[str, int], since: int) -> None:
        self.config, self._service, self._begun = config, service, begun
        turns = service.call(config.name, lambda session: _known_turns(session, since))
        self.sessions = Sessions(config.session_seconds, turns)
        self._withdrawing = asyncio.Semaphore(WITHDRAWN_AT_ONCE)
        self._paying = asyncio.Lock()  # a decision is paid for before the next one asks what it can afford

    # Deciding.

    async def route(self, ask: Ask) -> Routed:
        """Decide on a text, or stay with the decision of its session."""
        if not ask.text.strip():
            raise ValidationError("the text is empty", "text")
        async with self.sessions.turn_of(ask.session):
            turn = await self._sticky_turn(ask)
            if turn is not None and (found := await self._stay(turn)) is not None:
                if ask.request_id is not None:
                    self.sessions.stay(ask.request_id, turn, ask.digest)
                return found
            routed = await self._decide(ask)
            if ask.session is not None and routed.new:
                self.sessions.put(ask.session, Turn(routed.id, routed.arm, self._service.clock()))
            return routed

    async def _sticky_turn(self, ask: Ask) -> Turn | None:
        """The decision to stay with: that of an earlier request of this id which did so, or that of the session."""
        if self.config.observe or (ask.request_id is not None and (await self._look(ask)).known is not None):
            return None  # an id that has a decision of its own gets that one
        stayed = None if ask.request_id is None else self.sessions.stayed(ask.request_id)
        if stayed is not None and stayed.asked != ask.digest:
            raise ask.reused("for another text")
        turn = None if stayed is None else stayed.turn
        if turn is None and self.config.sticky and ask.session is not None:
            turn = self.sessions.current(ask.session, self._service.clock())
        return turn if turn is not None and turn.arm in self.config.costs and turn.arm not in ask.without else None

    async def _stay(self, turn: Turn) -> Routed | None:
        """Another turn of a decision; None if that was withdrawn or evicted."""

        def read(session: Session) -> Routed | None:
            try:
                made = session.agent.decision(turn.id)
            except UnknownDecision:
                return None
            scores = _named(session, made.scores)
            because = reasons(session, turn.id)
            propensity = made.propensity
            return Routed(
                id=turn.id, arm=turn.arm, propensity=propensity, scores=scores, because=because, sticky=True, new=False
            )

        return await self._service.call_async(self.config.name, read)  # type: ignore[no-any-return]

    async def _decide(self, ask: Ask) -> Routed:
        if self.config.budget is None and ask.request_id is None:
            return await self._explained(ask, await self._decided(ask, self._allowed(ask, None), None))
        async with self._paying:
            look = await self._look(ask)
            answered = look.known or await self._decided(ask, self._allowed(ask, look.counts), look.request_id)
        return await self._explained(ask, answered, new=look.known is None)

    async def _look(self, ask: Ask) -> Look:
        def read(session: Session) -> Look:
            counts = dict(zip(session.agent.arm_names, session.agent.times_chosen, strict=True))
            return Look(*known_decision(session, ask, self.config.costs), counts)  # type: ignore[arg-type]

        return await self._service.call_async(self.config.name, read)  # type: ignore[no-any-return]

    def _affordable(self, ask: Ask, counts: Mapping[str, int] | None) -> list[str]:
        """The arms that can be chosen for a text, by the budget if there is one."""
        costs = {arm: cost for arm, cost in self.config.costs.items() if arm not in ask.without}
        if self.config.budget is None or counts is None:
            return list(costs)
        since = {arm: counts[arm] - self._begun.get(arm, 0) for arm in self.config.costs}
        return [arm for arm in affordable(self.config.costs, since, self.config.budget) if arm in costs]

    def _allowed(self, ask: Ask, counts: Mapping[str, int] | None) -> list[str]:
        if self.config.observe:
            sent = ask.sent or self.config.default
            if sent not in self.config.costs:
                raise ValidationError(f"there is no arm {sent!r:.100}", "sent")
            return [sent]
        if not (found := self._affordable(ask, counts)):
            raise LimitExceeded("no arm that is left fits the budget")
        return found

    async def _decided(self, ask: Ask, allowed: list[str], request_id: str | None) -> Answered:
        """A new decision of the agent; it is in the journal."""
        context: Any = {"text": ask.text} | ({} if ask.session is None else {"session": ask.session})
        request = DecideRequest(context=context, allowed=list(allowed), request_id=request_id)
        self._service.limits.check_request(request)
        return _decode_answer(await self._service.call_async(self.config.name, Decide(request)))

    async def _explained(self, ask: Ask, made: Answered, *, new: bool = True) -> Routed:
        if not ask.reasons and not self.config.observe:
            return Routed(id=made.id, arm=str(made.arm), propensity=made.propensity, scores={}, new=new)

        def read(session: Session) -> Routed:
            bounds = np.add(made.decision().scores, made.decision().widths)
            arms = session.agent.arm_names
            would = _best(bounds, arms, self._affordable(ask, None)) if self.config.observe else None
            scores = _named(session, made.scores)
            try:
                because = reasons(session, made.id, would)
            except UnknownDecision:  # withdrawn or evicted meanwhile
                because = []
            arm = str(made.arm)
            return Routed(
                id=made.id, arm=arm, propensity=made.propensity, scores=scores, because=because, new=new, would=would
            )

        return await self._service.call_async(self.config.name, read)  # type: ignore[no-any-return]

    # What comes of it.

    async def withdraw(self, ask: Ask, routed: Routed) -> None:
        """A decision was never shown; one that others have seen, as turns of a session have, stays."""
        if not routed.new:
            return
        try:
            async with self._withdrawing:
                await self._service.call_async(self.config.name, Withdraw(routed.id))
        except UnknownDecision:
            log.debug("decision %d is withdrawn already", routed.id)
        if ask.session is not None:
            self.sessions.drop(ask.session, routed.id)

    async def feedback(self, thumb: Thumb) -> dict[str, Any]:
        """Give a decision its reward; returns what came of it."""
        id = await self._decision_of(thumb)
        answer = await self._service.call_async(self.config.name, Reward(id, thumb.reward))
        return msgspec.json.decode(answer)  # type: ignore[no-any-return]

    async def _decision_of(self, thumb: Thumb) -> int:
        """The id of the decision that a thumb is about: by its own id, that of its request, or its session."""
        if thumb.id is not None:
            return thumb.id
        id, stands = (None, False) if thumb.request_id is None else await self._known_by(thumb.request_id)
        if not stands and thumb.session is not None and (turn := self.sessions.latest(thumb.session)) is not None:
            return turn.id
        if id is None:
            raise UnknownDecision("no decision is known for this message or session; it may be too old")
        return id  # if it does not stand, the caller is told so

    async def _known_by(self, request_id: str) -> tuple[int | None, bool]:
        """The decision that a request of this id made or stayed with, None if there is none; and whether it stands."""
        stayed = self.sessions.stayed(request_id)

        def read(session: Session) -> tuple[int | None, bool]:
            made = attempts_of(session, request_id)
            if made.stands or stayed is None:
                return made.latest, made.stands
            return stayed.turn.id, stayed.turn.id in session.agent.decisions

        return await self._service.call_async(self.config.name, read)  # type: ignore[no-any-return]

    async def count(self) -> int:
        """How many decisions there were, without those that were withdrawn."""
        health: dict[str, Any] = await self._service.call_async(self.config.name, lambda session: session.health())
        return int(health["decisions"] - health["withdrawn"])

    async def explain(self, id: int) -> dict[str, Any]:
        """A decision, what came of it, and why it was made, in words too."""

        def read(session: Session) -> dict[str, Any]:
            made, because = session.explain(id), reasons(session, id)
            explanation, remembered = made["explanation"], made["remembered"]
            scores = _named(session, explanation["scores"])
            return {
                "id": id,
                "arm": made["arm"],
                "text": remembered.get("text"),
                "session": remembered.get("session"),
                "state": made["state"],
                "reward": made["reward"],
                "propensity": explanation["propensity"],
                "scores": scores,
                "because": because,
                "words": in_words(made["arm"], because),
            }

        return await self._service.call_async(self.config.name, read)  # type: ignore[no-any-return]


def _known_turns(session: Session, since: int) -> list[tuple[str, Turn]]:
    """The sessions of all decisions that are held, oldest first; the time of those before `since` is over."""
    decisions, values = session.agent.decisions, session.remembered.values
    known = [(values[id]["session"], decisions[id]) for id in decisions if "session" in values.get(id, ())]
    return [
        (name, Turn(made.id, str(made.arm), made.time if made.id >= since else -np.inf))
        for name, made in known
        if made.state != "labelled"
    ]


def _named(session: Session, scores: Any) -> dict[str, float | None]:
    """The scores of arms that can be chosen, by name; None for those that were added later."""
    agent = session.agent
    plain = [None if score is None or np.isnan(score) else round(float(score), 4) for score in scores]
    by_name = dict(zip(agent.arm_names, plain, strict=False))
    return {str(arm): by_name.get(arm) for arm in agent.active_arms}


def _best(bounds: Any, names: Any, among: list[str]) -> str:
    """The arm with the highest bound among some; the first of equals."""
    by_name = dict(zip(names, bounds, strict=False))
    return max(among, key=lambda arm: -np.inf if np.isnan(by_name[arm]) else by_name[arm])
