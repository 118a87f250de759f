"""The routes of a router that take and give JSON."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from taciturn.contracts import STATES
from taciturn.router.asks import Ask
from taciturn.router.desk import Desk
from taciturn.router.reasons import REASONS
from taciturn.router.thumbs import describe_shapes, read_thumb
from taciturn.service.api.answer_schemas import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    list_of,
    object_with,
    reference,
)
from taciturn.service.api.routes import JSON, Endpoint, decision_id
from taciturn.service.core.contexts import MAX_TEXT
from taciturn.service.core.encoding import encode
from taciturn.service.core.errors import ValidationError

MAX_BODY = 400_000
"""Bytes of a request: a text of `MAX_TEXT` characters, all of them escaped."""

Name = Annotated[str, Meta(min_length=1, max_length=128)]


class RouteRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """A text to route.

    `session` is the conversation that it belongs to, `request_id` lets a retry have the same answer, and `sent` is the
    arm that your own rule chose, in observe mode.
    """

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    session: Name | None = None
    request_id: Name | None = None
    sent: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


_decode = msgspec.json.Decoder(RouteRequest).decode


class RouteHandlers:
    """What the routes do."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def route(self, _: dict[str, str], body: bytes) -> bytes:
        """Route a text."""
        given = _decode(body)
        if given.sent is not None and not self._desk.config.observe:
            raise ValidationError("sent is for observe mode; the router chooses the arm here", "sent")
        routed = await self._desk.route(Ask(given.text, given.session, given.request_id, given.sent))
        return encode(routed.as_json())

    async def why(self, path: dict[str, str], _: bytes) -> bytes:
        """A decision, and why it was made."""
        return encode(await self._desk.explain(decision_id(path)))

    async def feedback(self, _: dict[str, str], body: bytes) -> bytes:
        """A thumb."""
        return encode(await self._desk.feedback(read_thumb(msgspec.json.decode(body))))

    async def models(self, _: dict[str, str], __: bytes) -> bytes:
        """The models of the proxy: one, which is all of them."""
        return encode({"object": "list", "data": [{"id": "taciturn", "object": "model", "owned_by": "taciturn"}]})


def route_endpoints(desk: Desk) -> tuple[Endpoint, ...]:
    """The routes of a router, as rows of the service's table."""
    handlers = RouteHandlers(desk)
    asked = {"text": "I want my money back", "session": "chat-17"}
    return (
        Endpoint(method="POST", path="/v1/route", name="route", scope="write", takes="RouteRequest",
                 gives=_gives("Routed"), handle=handlers.route, max_bytes=MAX_BODY, example=asked, refuses=(409,),
                 about="The arm for a text, and the three earlier texts that spoke for it."),
        Endpoint(method="GET", path="/v1/route/{id}", name="why", gives=_gives("RoutedDetails"), handle=handlers.why,
                 refuses=(410,), about="Why a text was sent to its arm, and what came of it."),
        Endpoint(method="POST", path="/v1/feedback", name="thumbs", scope="write", takes="Thumbs",
                 gives=_gives("Feedback"), handle=handlers.feedback, max_bytes=MAX_BODY,
                 example={"id": 7, "rating": "up"}, refuses=(404, 409, 410),
                 about="Thumbs, as chat front ends send them: by decision, message or session."),
        Endpoint(method="GET", path="/v1/models", name="models", gives=_gives("Models"),
                 handle=handlers.models, about="The model of the proxy, for chat front ends that ask."),
    )  # fmt: skip


def _gives(name: str) -> tuple[str, dict[str, Any]]:
    return JSON, reference(name)


def route_schemas() -> dict[str, Any]:
    """The schemas of what the routes take and give."""
    _, found = msgspec.json.schema_components((RouteRequest,))
    shared = {
        "id": INTEGER,
        "arm": TEXT,
        "propensity": NUMBER,
        "scores": {"type": "object", "additionalProperties": NUMBER_OR_NULL},
        "because": list_of(reference("Reason")) | {"maxItems": REASONS},
        "words": TEXT,
    }
    spoken = {"id": INTEGER, "text": TEXT_OR_NULL, "arm": TEXT, "outcome": TEXT, "closeness": NUMBER}
    known = {"text": TEXT_OR_NULL, "session": TEXT_OR_NULL, "state": {"enum": list(STATES)}, "reward": NUMBER_OR_NULL}
    return found | {
        "Routed": object_with(shared | {"sticky": BOOLEAN}, mode={"const": "observe"}, would=TEXT),
        "RoutedDetails": object_with(shared | known),
        "Reason": object_with(spoken),
        "Thumbs": dict(describe_shapes()),
        "Model": object_with({"id": TEXT, "object": {"const": "model"}, "owned_by": TEXT}),
        "Models": object_with({"object": {"const": "list"}, "data": list_of(reference("Model"))}),
    }
