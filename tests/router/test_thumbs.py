"""The webhook takes what chat front ends send, and lists the shapes where it cannot read one."""

import json

import pytest

from taciturn.router.thumbs import SHAPES, Thumb, read_thumb
from taciturn.service.core.errors import ValidationError

OPEN_WEBUI = {
    "type": "rating",
    "data": {
        "rating": 1,
        "model_id": "taciturn",
        "reason": "accurate",
        "comment": "",
        "tags": [],
        "details": {"rating": 9},
    },
    "meta": {"arena": False, "chat_id": "c1", "message_id": "m1", "message_index": 2, "model_id": "taciturn"},
    "snapshot": {"chat": {}},
}


@pytest.mark.parametrize(
    ("given", "thumb"),
    [
        ({"id": 7, "reward": 0.3}, Thumb(0.3, 7, None, None)),
        ({"id": 7, "reward": None}, Thumb(None, 7, None, None)),
        ({"id": "7", "rating": "up"}, Thumb(1.0, 7, None, None)),
        ({"decision_id": 7, "thumbs": False}, Thumb(0.0, 7, None, None)),
        ({"message_id": "m", "rating": "like", "user": "u"}, Thumb(1.0, None, "m", None)),
        ({"message_id": "m", "rating": None, "user": "u"}, Thumb(None, None, "m", None)),
        (
            {"conversationId": "c", "messageId": "m", "feedback": {"rating": "thumbsDown", "tag": "not_matched"}},
            Thumb(0.0, None, "m", "c"),
        ),
        ({"conversationId": "c", "messageId": "m", "feedback": None}, Thumb(None, None, "m", "c")),
        (OPEN_WEBUI, Thumb(1.0, None, "m1", "c1")),
        (OPEN_WEBUI | {"id": "6f0c"}, Thumb(1.0, None, "m1", "c1")),
        (OPEN_WEBUI | {"data": {"rating": "-1"}}, Thumb(0.0, None, "m1", "c1")),
        (OPEN_WEBUI | {"data": {"rating": 0}}, Thumb(None, None, "m1", "c1")),
        ({"forId": "m", "value": 0}, Thumb(0.0, None, "m", None)),
        ({"chatId": "c", "messageId": "m", "type": "down"}, Thumb(0.0, None, "m", "c")),
        ({"run_id": "r", "key": "thumbs", "score": 1}, Thumb(1.0, None, "r", None)),
        ({"session": "s", "rating": "👍"}, Thumb(1.0, None, None, "s")),
        ({"id": "msg_1", "vote": "Good"}, Thumb(1.0, None, "msg_1", None)),
    ],
)
def test_known_shapes(given, thumb):
    assert read_thumb(json.loads(json.dumps(given))) == thumb


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_that_the_error_lists_is_read(shape):
    assert read_thumb(json.loads(shape)).reward is not None


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        "up",
        {},
        {"rating": "up"},
        {"id": 7},
        {"id": True, "rating": "up"},
        {"id": -1, "reward": 1},
        {"id": 1.5, "reward": 1},
    ],
)
def test_other_shapes_are_refused_with_the_list(given):
    with pytest.raises(ValidationError) as error:
        read_thumb(given)
    assert all(shape in str(error.value) for shape in SHAPES)


@pytest.mark.parametrize(
    "given",
    [{"reward": 2}, {"reward": "1"}, {"reward": True}, {"reward": [1]}, {"rating": 5}, {"rating": "meh"},
     {"rating": {}}, {"value": -2}, {"rating": float("nan")}, {"score": -0.1}, {"rating": "up" * 100}],
)  # fmt: skip
def test_a_wrong_value_is_refused_by_its_name(given):
    with pytest.raises(ValidationError) as error:
        read_thumb({"id": 7} | given)
    assert error.value.field == next(iter(given))
