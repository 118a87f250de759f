"""Contexts over HTTP: everything that JSON can say is decided on as in the library, and bounded."""

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from service_kit import MemoryJournal, Web
from taciturn.features.named import MAX_DEPTH
from taciturn.service.api.bodies import JSON_WEIGHT
from taciturn.service.api.local import create_app
from taciturn.service.api.schemas import decode_decide
from taciturn.service.core.contexts import MAX_NAME, MAX_TEXT
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import Create, Decide, DecideRequest
from taciturn.service.core.service import Service
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal

CONTEXTS = [
    {
        "age": 41,
        "country": "DE",
        "note": "where is my parcel",
        "vip": True,
        "tags": ["late", "new"],
        "at": "2026-11-16",
    },
    {"age": None, "country": "FR", "note": "parcel came late", "vip": False, "tags": [], "at": "2026-11-16T09:30"},
    {"age": 23.5, "country": None, "note": None, "shop": {"size": 3, "kind": "online"}, "scores": [0.5, 1, -2]},
]


@pytest.fixture
def ask():
    """Requests to a service with an agent for each kind of context."""
    service = Service(MemoryJournal())
    with Web(create_app(service)) as asking:
        for name in ("named", "array", "text"):
            body = {"name": name, "kind": "linucb", "arms": ["a", "b"], "params": {"expire_after": None}}
            assert asking("POST", "/v1/agents", json=body).status_code == 201
        yield asking
    service.close()


def decide(ask, agent, **body):
    return ask("POST", f"/v1/agents/{agent}/decisions", json=body)


def refusal(answer):
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert "\n" not in problem["detail"]
    return problem.get("field"), problem["detail"]


# The same as in the library.

SPARSE = {"indices": [0, 2], "values": [1, None], "size": 3}
SAME = {
    "named": [*CONTEXTS, {"age": 1}, {"other": "word"}],
    "array": [[1.0, None, 3], [0, 1, 2], SPARSE],
    "text": ["where is my parcel", "where", "my order came late"],
}


@pytest.mark.parametrize("agent", SAME)
def test_a_context_is_decided_on_as_in_the_library(ask, agent):
    bare = taciturn.make("linucb", arms=["a", "b"])
    for step, context in enumerate(SAME[agent] * 3):
        answer = decide(ask, agent, context=context).json()
        made = bare.decide([1.0, 0.0, None] if context is SPARSE else context)
        assert (answer["arm"], answer["scores"]) == (made.arm, made.scores.tolist())
        ask("PUT", f"/v1/agents/{agent}/decisions/{made.id}/reward", json={"reward": step % 2})
        bare.feedback(made.id, step % 2)
    about = ask("GET", f"/v1/agents/{agent}").json()
    assert about["kinds"] == dict(bare.feature_kinds)
    assert (about["features"], about["scaling"]) == (bare.n_features, "auto")
    assert about["columns"] == len(about["kinds"])


words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
scalars = st.one_of(st.none(), st.booleans(), st.floats(-1e9, 1e9), st.integers(-(2**53), 2**53), words)
values = st.recursive(
    scalars | st.lists(scalars, max_size=3),
    lambda inner: st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
anything = st.one_of(
    st.dictionaries(words, values, max_size=5), words, st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), max_size=3)
)


@settings(max_examples=60)
@given(contexts=st.lists(anything, min_size=1, max_size=6))
def test_generated_contexts_are_answered_or_refused_as_the_library_does(contexts):
    bare, service = taciturn.make("linucb", arms=2), Service(MemoryJournal())
    service.call("x", Create("x", 2, "linucb"))
    with closing(service), Web(create_app(service)) as ask:
        for context in contexts:
            answer = decide(ask, "x", context=context)
            try:
                made = bare.decide(context)
            except taciturn.TaciturnError as error:
                assert refusal(answer)[1] == str(error)[:500]
            else:
                assert answer.status_code == 200, answer.text
                assert answer.json()["scores"] == made.scores.tolist()


# Refusals: where, what, and what would be right.

DEEP = 1.0
for _ in range(MAX_DEPTH + 1):
    DEEP = {"a": DEEP}
REFUSED = [
    ({"age": "old"}, ".age", "feature 'age' is 'old', a category; it was a number so far, and a number is needed"),
    ({"shop": {"size": "big"}}, ".shop.size", "'shop.size' is 'big', a category; it was a number so far"),
    ({"age": 1e300}, ".age", "feature 'age' is 1e+300; a finite number is needed"),
    ({"x": [10**400]}, ".x[0]", "a whole number from"),
    ({"x": [["a"]]}, ".x[0]", "a list with a list in it; a list of words or of numbers is needed"),
    ({"x": [1, {"a": 1}]}, ".x[1]", "a list with an object in it"),
    (DEEP, "." + ".".join("a" * MAX_DEPTH), f"{MAX_DEPTH} are allowed"),
    ({"n" * (MAX_NAME + 1): 1}, None, f"{MAX_NAME} are allowed"),
    ({"o" * MAX_NAME: {"i": 1}}, None, f"{MAX_NAME} are allowed"),
    ({"x": "w" * (MAX_NAME + 1)}, ".x", "the column is named in features.text"),
    ({"x": ["w" * (MAX_NAME + 1)]}, ".x[0]", f"{MAX_NAME} are allowed"),
    ({"x": "w " * MAX_TEXT}, ".x", f"{MAX_TEXT} are allowed"),
    ("w " * MAX_TEXT, ".text", f"{MAX_TEXT} are allowed"),
    ([1.0, 2.0], "", "{feature: value}"),
    ({}, "", "empty"),
]


@pytest.mark.parametrize(("context", "where", "words"), REFUSED)
def test_a_refusal_names_the_feature_and_says_what_would_be_right(ask, context, where, words):
    decide(ask, "named", contexts=CONTEXTS)
    before = ask("GET", "/v1/agents/named").json()
    for body, start in (
        ({"context": context}, "context"),
        ({"contexts": [CONTEXTS[0], context]}, "contexts[1]"),
    ):
        answer = ask("POST", "/v1/agents/named/decisions", content=json.dumps(body), headers=JSON)
        field, detail = refusal(answer)
        assert words in detail
        assert field.startswith(start) if where is None else field == start + where
    assert ask("GET", "/v1/agents/named").json() == before, "nothing has changed"


JSON = {"content-type": "application/json"}


def test_what_is_at_the_bounds_is_taken(ask):
    deep = 1.0
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    text = ("w" * (MAX_NAME - 1) + " ") * (MAX_TEXT // MAX_NAME)
    for context in (deep, {"n" * MAX_NAME: 2**53}, {"x": "w" * MAX_NAME}, {"y": ["w" * MAX_NAME]}, {"z": text}):
        assert decide(ask, "named", context=context).status_code == 200


def test_words_share_columns_where_there_are_as_many_features_as_allowed():
    service = Service(MemoryJournal(), limits=Limits(dimension=8))
    with closing(service), Web(create_app(service)) as ask:
        ask("POST", "/v1/agents", json={"name": "x", "kind": "linucb", "arms": 2})
        for number in range(30):
            note = f"word{number} and word{number + 1}"
            assert decide(ask, "x", context={"note": note, "age": number}).status_code == 200
        assert ask("GET", "/v1/agents/x").json()["features"] == 8
        file = ask("GET", "/v1/agents/x/file").content
    agent = taciturn.make("linucb", arms=2)
    agent.decide({"note": "a b"})
    imported = Service(MemoryJournal(), limits=Limits(dimension=8))
    with closing(imported):
        imported.call("y", imported.limits.bounded_import(file))
        assert imported.call("y", lambda session: session.agent.params["features"]) == {"max_features": 8}


def test_memory_is_counted_with_the_words_that_a_text_opens():
    service = Service(MemoryJournal(), limits=Limits(total_memory=3_000_000, nodes=16))
    with closing(service), Web(create_app(service)) as ask:
        ask("POST", "/v1/agents", json={"name": "x", "kind": "linucb", "arms": 2})
        text = " ".join(f"w{number}" for number in range(900))
        field, detail = refusal(decide(ask, "x", context={"note": text}))
        assert (field, "1799 features" in detail) == ("context", True)
        assert decide(ask, "x", context={"note": text[:20]}).status_code == 200


HEAVY = {
    "numbers": b'{"context":[%s]}' % b",".join([b"0"] * 5000),
    "contexts": b'{"contexts":[%s]}' % b",".join([b'{"":0}'] * 5000),
    "objects in a list": b'{"context":{"a":[%s]}}' % b",".join([b'{"":{"":0}}'] * 5000),
    "lists in a list": b'{"context":{"a":[%s]}}' % b",".join([b"[0]"] * 5000),
    "names": b'{"context":{%s}}' % b",".join(b'"%x":{}' % number for number in range(5000)),
}


@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY)
def test_a_decoded_request_takes_no_more_memory_than_is_counted_for_it(body):
    tracemalloc.start()
    try:
        decoded = decode_decide(body)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert decoded.all_contexts
    assert used < JSON_WEIGHT * len(body)


def test_json_that_is_nested_without_end_is_refused(ask):
    for start, end in ((b"[", b"]"), (b'{"a":', b"}")):
        body = b'{"context":{"a":' + start * 100_000 + b"1" + end * 100_000 + b"}}"
        assert ask("POST", "/v1/agents/named/decisions", content=body, headers=JSON).status_code == 400


# Parameters.


@pytest.mark.parametrize(
    ("features", "field"),
    [
        ({"embed": "openai:small@http://10.0.0.1/v1"}, "params.features.embed"),
        ({"embed": "os:system"}, "params.features.embed"),
        ({"embed": 1}, "params.features.embed"),
        ({"text": ["n" * 300]}, "params.features.text"),
        ({"ignore": [str(number) for number in range(2000)]}, "params.features.ignore"),
    ],
)
def test_features_that_strangers_may_not_give_are_refused(ask, features, field):
    body = {"name": "y", "kind": "linucb", "arms": 2, "params": {"features": features}}
    assert refusal(ask("POST", "/v1/agents", json=body))[0] == field
    assert ask("GET", "/v1/agents/y").status_code == 404


@pytest.mark.parametrize(
    "features", [[], "note", {"no": 1}, {"text": "note"}, {"max_features": 0}, {"max_features": "a"}]
)
def test_wrong_features_are_refused_in_one_line(ask, features):
    body = {"name": "y", "kind": "linucb", "arms": 2, "params": {"features": features}}
    refusal(ask("POST", "/v1/agents", json=body))


def test_a_file_whose_agent_would_call_an_address_is_refused(tmp_path):
    agent = taciturn.make("linucb", arms=2, features={"embed": "openai:small@http://10.0.0.1/v1"})
    agent.save(tmp_path / "agent.taciturn")
    with closing(Service(MemoryJournal())) as service, pytest.raises(taciturn.TaciturnError, match="wordllama"):
        service.call("x", service.limits.bounded_import((tmp_path / "agent.taciturn").read_bytes()))


def test_features_and_scaling_are_part_of_the_agent(ask):
    features = {"text": ["note"], "categorical": ["zip"], "ignore": ["id"]}
    params = {"features": features, "scaling": "l2"}
    ask("POST", "/v1/agents", json={"name": "y", "kind": "linucb", "arms": ["a", "b"], "params": params})
    assert decide(ask, "y", context={"note": "refund", "zip": 10115, "id": "x7"}).status_code == 200
    about = ask("GET", "/v1/agents/y").json()
    assert (about["scaling"], about["params"]["features"]) == ("l2", features | {"max_features": Limits().dimension})
    assert about["kinds"] == {"note": "text", "zip": "category", "id": "ignored"}
    copy = ask("POST", "/v1/agents/copy/file", content=ask("GET", "/v1/agents/y/file").content, headers=FILE)
    assert {**copy.json(), "name": "y"} == about


FILE = {"content-type": "application/octet-stream"}


# Restarts.

LIVE = """
import json, os, signal, sys
from taciturn.service.core.operations import Create, Decide, DecideRequest, Reward
from taciturn.service.core.service import Service
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.journal.sqlite import SQLiteJournal
from pathlib import Path
folder, kind = Path(sys.argv[1]), sys.argv[2]
service = Service(SQLiteJournal(folder / "journal.db"), Snapshots(folder), snapshot_every=15)
service.call("x", service.limits.bounded_create(Create("x", ["a", "b"], kind)))
for line in sys.stdin:
    number, context = json.loads(line)
    answer = service.call("x", Decide(DecideRequest(context, request_id=str(number))))
    if number % 3:
        service.call("x", Reward(number, (number % 4) / 4))
    print(answer.decode(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def mixed(rng, number):
    return {
        "age": None if number % 5 == 0 else float(rng.integers(20, 80)),
        "country": ["DE", "FR", None][number % 3],
        "note": " ".join(rng.choice(["parcel", "late", "refund", "where", "order"], 4)),
        "tags": rng.choice(["new", "vip", "old"], number % 3).tolist(),
        "at": f"2026-11-{number % 28 + 1:02}",
    }


@pytest.mark.parametrize("kind", ["linucb", "viewucb"])
def test_mixed_contexts_have_the_same_answers_after_a_kill(tmp_path, kind):
    rng = np.random.default_rng(0)
    contexts = [mixed(rng, number) for number in range(40)]
    lines = "".join(json.dumps([number, context]) + "\n" for number, context in enumerate(contexts))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    run = subprocess.run(  # noqa: PLW1510 - it kills itself
        [sys.executable, "-c", LIVE, tmp_path, kind], input=lines, capture_output=True, text=True, env=environment
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    answers = run.stdout.splitlines()
    found = []
    for snapshots in (None, Snapshots(tmp_path)):
        with (
            closing(SQLiteJournal(tmp_path / "journal.db")) as journal,
            closing(Service(journal, snapshots)) as service,
        ):
            assert service.differing == 0
            for number, context in enumerate(contexts):
                asked = Decide(DecideRequest(context, request_id=str(number)))
                assert service.call("x", asked).decode() == answers[number]
            found.append(service.call("x", lambda session: next_decision(session.agent.fork())))
    assert found[0] == found[1], "from the journal alone, and from a snapshot"
    if kind == "linucb":  # which defers no training
        bare = taciturn.make(kind, arms=["a", "b"], expire_after=1e9)
        for number, context in enumerate(contexts):
            made = bare.decide(context, at=0.0)
            if number % 3:
                bare.feedback(made.id, (number % 4) / 4)
        assert found[0] == next_decision(bare)


def next_decision(agent):
    """The scores of a further decision, and the kinds of all columns."""
    while agent.train_pending():
        pass
    scores = agent.decide({"age": 50.0, "country": "FR", "note": "late refund"}, at=agent.clock).scores
    return scores.tolist(), dict(agent.feature_kinds)
