"""The webhook takes what chat front ends send, and lists the shapes where it cannot read one."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router_kit import running
from taciturn.router.thumbs import IDS, INSIDE, REQUESTS, SESSIONS, SHAPES, Thumb, read_thumb
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
        ({"id": "msg_1", "decision_id": 7, "vote": "Good"}, Thumb(1.0, 7, None, None)),
        ({"chat_id": "", "message_id": "m", "vote": "Good"}, Thumb(1.0, None, "m", None)),
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
        {"id": 7, "type": []},
        {"id": 7, "type": {}},
        {"id": "", "session": "", "message_id": None, "rating": "up"},
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


@pytest.mark.parametrize("value", [-5, True, False, 1.5, 10**30, [], [7], {}, {"id": 7}])
@pytest.mark.parametrize("name", ["id", "decision_id", "message_id", "session"])
def test_a_wrong_name_of_the_decision_is_refused_whatever_else_is_given(name, value):
    with pytest.raises(ValidationError) as error:
        read_thumb({"chat_id": "s1", "rating": "down"} | {name: value})
    assert error.value.field == name


@pytest.mark.parametrize("given", [{"decision": "x"}, {"decision": "-5"}, {"message_id": "m" * 129}, {"id": "m" * 129}])
def test_text_that_cannot_be_a_name_is_refused_too(given):
    with pytest.raises(ValidationError) as error:
        read_thumb({"chat_id": "s1", "rating": "down"} | given)
    assert error.value.field == next(iter(given))


NAMES = [*IDS, *REQUESTS, *SESSIONS, *INSIDE, "reward", "score", "value", "rating", "thumbs", "type"]
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1, 12)
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=9) | st.sampled_from(["up", "down", "1", "s"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)


@settings(max_examples=200)
@example({"id": 7, "type": []})
@given(OBJECTS)
def test_any_object_is_a_thumb_or_refused(given):
    try:
        thumb = read_thumb(given)
    except ValidationError:
        return
    assert thumb.reward is None or 0 <= thumb.reward <= 1
    assert thumb[1:] != (None, None, None)
    assert thumb.id is None or 0 <= thumb.id < 2**53
    assert all(name is None or 0 < len(name) <= 128 for name in thumb[2:])


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    with running(tmp_path_factory.mktemp("thumbs")) as router:
        router.route("the parcel is late", session="s", request_id="1")
        yield router


@settings(max_examples=50)
@example({"id": 12, "type": {}})
@given(OBJECTS)
def test_any_object_is_answered(router, given):
    answer = router.web("POST", "/v1/feedback", json=given)
    assert answer.status_code in {200, 404, 409, 410, 422}, answer.text
