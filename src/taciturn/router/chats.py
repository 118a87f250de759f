"""Chat completions in the form of OpenAI: what is read of a request, what is changed in it, and how it is described."""

from typing import Any

import msgspec
from msgspec import Struct

from taciturn.router.upstreams import CALLERS_FAULT
from taciturn.service.api.answer_schemas import reference
from taciturn.service.api.problems import MEDIA_TYPE
from taciturn.service.api.routes import JSON, Operation
from taciturn.service.core.errors import ValidationError

PATH = "/v1/chat/completions"
MAX_ROUTED = 8_000
"""Characters of the last message that the arm is chosen by."""

SESSION_HEADERS = ("x-taciturn-session", "x-openwebui-chat-id", "x-conversation-id", "x-session-id")
REQUEST_HEADERS = ("x-taciturn-request", "x-openwebui-message-id")
"""Headers that name the conversation and the message; the first that is there counts."""

ARM_HEADER, DECISION_HEADER, WOULD_HEADER = "x-taciturn-arm", "x-taciturn-decision", "x-taciturn-would"
"""Headers of an answer."""


class ChatPart(Struct):
    """A part of a message; only text is read."""

    type: str = ""
    text: str | None = None


class ChatMessage(Struct):
    """A message of a chat."""

    role: str
    content: str | list[ChatPart] | None = None

    def words(self) -> str:
        """The text of the message, without images and the like."""
        if isinstance(self.content, list):
            return "\n".join(part.text or "" for part in self.content if part.type == "text")
        return self.content or ""


class ChatRequest(Struct):
    """A chat; what else OpenAI's form has goes to the upstream as it is, but for the model."""

    messages: list[ChatMessage]


_decode_chat = msgspec.json.Decoder(ChatRequest).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def last_text(body: bytes) -> str:
    """The text of the user's last message."""
    chat = _decode_chat(body)
    last = next((message for message in reversed(chat.messages) if message.role == "user"), None)
    words = "" if last is None else last.words()
    if not words.strip():
        raise ValidationError("there is no message of a user with text, by which an arm could be chosen", "messages")
    return words[:MAX_ROUTED]


def with_model(body: bytes, model: str | None) -> bytes:
    """The body with another model, and all else byte for byte."""
    if model is None:
        return body
    fields: dict[str, Any] = _decode_fields(body)
    return msgspec.json.encode(fields | {"model": model})


def chat_operation() -> Operation:
    """The description of the route."""
    headers = {
        ARM_HEADER: "The arm that answered; signs outside of ASCII are escaped as in addresses.",
        DECISION_HEADER: "The id of the decision, for thumbs.",
        WOULD_HEADER: "The arm that would have been chosen, in observe mode.",
    }
    answer = {
        "description": "The answer of the chosen arm's upstream as it comes: JSON, or a stream of events.",
        "content": {JSON: {"schema": reference("ChatAnswer")}, "text/event-stream": {"schema": {"type": "string"}}},
        "headers": {name: {"description": about, "schema": {"type": "string"}} for name, about in headers.items()},
    }
    refusal = {
        "description": "A problem; or the request was refused by the upstream, whose answer this is.",
        "content": {MEDIA_TYPE: {"schema": reference("Problem")}, JSON: {"schema": reference("ChatAnswer")}},
    }
    named = dict.fromkeys(SESSION_HEADERS, "The conversation.") | dict.fromkeys(REQUEST_HEADERS, "The message.")
    return Operation(
        method="POST", path=PATH, name="chat", scope="write", takes="ChatRequest", reads=named, refuses=(404, 502, 504),
        example={"model": "taciturn", "messages": [{"role": "user", "content": "I want my money back"}]},
        answers={"200": answer} | {str(status): refusal for status in sorted(CALLERS_FAULT)},
        about="A chat completion, in the form of OpenAI, by the upstream of the chosen arm; 404 where there is none.",
    )  # fmt: skip


def chat_schemas() -> dict[str, Any]:
    """The schemas of what the route takes and gives."""
    _, found = msgspec.json.schema_components((ChatRequest,), ref_template="#/components/schemas/{name}")
    return found | {"ChatAnswer": {"type": "object", "description": "As the upstream sends it.", "title": "ChatAnswer"}}
