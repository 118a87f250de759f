"""Shards and fronts: what one process answers, from several; agents that move; processes that are replaced."""

import asyncio
import random
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster_kit import FrontWeb, Shards
from service_kit import MemoryJournal, Web, until
from taciturn.service.api.keys import digest
from taciturn.service.api.local import create_app
from taciturn.service.cluster.ring import Ring, ring
from taciturn.service.cluster.router import Router
from taciturn.service.core.service import Service
from taciturn.service.core.shard_service import ShardService
from taciturn.service.journal.base import Key
from taciturn.service.journal.snapshots import Snapshots
from taciturn.service.web import add_page

NAMES = [f"agent-{i}" for i in range(6)]


@pytest.fixture
def new_shards(server, tmp_path):
    opened = []

    def new_shards(**options):
        opened.append(Shards(server.address, tmp_path, **options))
        return opened[-1]

    yield new_shards
    for shards in opened:
        shards.close()


@pytest.fixture
def shards(new_shards):
    return new_shards()


@pytest.fixture
def ask(shards):
    with FrontWeb(shards) as web:
        yield web


def create(ask, *names):
    for name in names:
        answer = ask("POST", "/v1/agents", json={"name": name, "kind": "linucb", "arms": ["x", "y", "z"]})
        assert answer.status_code == 201, answer.text


def decide(ask, name, **more):
    return ask("POST", f"/v1/agents/{name}/decisions", json={"context": {"u": 1.0}, **more})


def settled(shards):
    """Whether every agent is where it belongs, among the shards that are wanted."""
    best = ring(shards.directory.wanted()).owner
    return all(shards.directory.owner(name) == best(name) for name in shards.directory.names())


# --- as one process ---


def random_request(rng, known):
    """A request that may be wrong, and the agent that it is about; `known` counts decisions of agents."""
    name = rng.choice([*NAMES, "nobody", "UPPER", "a/b"])
    agent = f"/v1/agents/{name}"
    id = rng.randrange(known[name] + 2)
    context = {f"f{rng.randrange(4)}": rng.choice([1.0, -2.5, "red", True]) for _ in range(rng.randrange(4))}
    return rng.choice(
        [
            ("POST", f"{agent}/decisions", {"json": {"context": context}}),
            ("POST", f"{agent}/decisions", {"json": {"context": context, "request_id": f"r{rng.randrange(30)}"}}),
            ("POST", f"{agent}/decisions", {"json": {"contexts": [context, {}]}}),
            ("POST", f"{agent}/decisions", {"json": {"context": None}}),
            ("POST", f"{agent}/decisions", {"content": b"{", "headers": {"content-type": "application/json"}}),
            ("PUT", f"{agent}/decisions/{id}/reward", {"json": {"reward": rng.choice([0, 1, None, 0.5, 7])}}),
            ("PUT", f"{agent}/rewards", {"json": [{"id": id, "reward": 1}, {"id": 10**6, "reward": 0}]}),
            ("GET", f"{agent}/decisions/{id}", {}),
            ("DELETE", f"{agent}/decisions/{id}", {}),
            ("GET", agent, {}),
            ("GET", f"{agent}/health", {}),
            ("POST", f"{agent}/arms", {"json": {"arm": f"arm{rng.randrange(3)}"}}),
            ("DELETE", f"{agent}/arms/{rng.choice('xyq')}", {}),
            ("GET", "/v1/agents", {}),
            ("POST", "/v1/agents", {"json": {"name": name, "arms": 3, "kind": rng.choice(["linucb", "none"])}}),
            *([("DELETE", agent, {})] if rng.random() < 0.2 else []),
        ]
    )


def test_several_shards_answer_as_one_process_does(shards, ask):
    rng = random.Random(3)  # noqa: S311 - not for secrets
    places = [shards.start(number) for number in range(2)]
    service = Service(MemoryJournal())
    app = create_app(service)
    add_page(app, service)
    known = Counter()
    statuses = Counter()
    with Web(app) as one:
        for name in NAMES:
            body = {"name": name, "kind": "viewucb" if name.endswith("0") else "linucb", "arms": ["x", "y", "z"]}
            assert one("POST", "/v1/agents", json=body).content == ask("POST", "/v1/agents", json=body).content
        for step in range(300):
            method, path, options = random_request(rng, known)
            expected, found = one(method, path, **options), ask(method, path, **options)
            assert (found.status_code, found.content) == (expected.status_code, expected.content), (method, path)
            assert found.headers == expected.headers
            known[path.split("/")[3] if path.count("/") > 2 else ""] += "decisions" in path and found.status_code == 200
            statuses[found.status_code] += 1
            if step in {100, 200}:  # restored from a snapshot, or from the journal where the process before was killed
                shards.stop(places.pop(0))
                places.append(shards.start(step // 200))
        for path in ("/", f"/agents/{NAMES[1]}", f"/agents/{NAMES[1]}/decisions/0", "/agents/none", "/docs"):
            first, second = one("GET", path), ask("GET", path)
            assert second.status_code == first.status_code
            if path.count("/") != 2 or "none" in path:  # that of an agent has its latencies
                assert second.text == first.text
    service.close()
    assert {200, 201, 204, 404, 409, 422} <= set(statuses)


def test_a_name_that_postgresql_cannot_hold_is_unknown(shards, ask):
    shards.start(0)
    answer = ask("GET", "/v1/agents/%00")
    assert (answer.status_code, answer.json()["type"]) == (404, "/docs#problem-unknown-agent")


def test_files_go_from_shard_to_shard(shards, ask):
    shards.start(0)
    shards.start(1)
    create(ask, *NAMES[:2])
    decide(ask, NAMES[0])
    file = ask("GET", f"/v1/agents/{NAMES[0]}/file").content
    for name in ("copy-1", "copy-2", "copy-3", "copy-4"):
        answer = ask(
            "POST", f"/v1/agents/{name}/file", content=file, headers={"content-type": "application/octet-stream"}
        )
        assert answer.status_code == 201, answer.text
        assert decide(ask, name).json()["id"] == 1
    assert len({shards.directory.owner(f"copy-{i}") for i in range(1, 5)}) == 2


def test_keys_are_checked_by_the_front_and_none_are_needed_to_see_that_it_is_ready(shards):
    shards.start(0)
    shards.start(1)
    key = Key("shop", digest("token"), "read")
    with FrontWeb(shards, [key]) as ask:
        assert ask("GET", "/v1/agents").status_code == 401
        assert ask("GET", "/metrics").status_code == 401
        allowed = {"headers": {"authorization": "Bearer token"}}
        assert ask("GET", "/v1/agents", **allowed).status_code == 200
        assert ask("POST", "/v1/agents", json={"name": "a", "arms": 2}, **allowed).status_code == 403
        until(lambda: ask("GET", "/readyz").status_code == 200)
        assert ask("GET", "/readyz/1").status_code == 200


# --- moving ---


def test_agents_move_to_a_new_shard_and_back_and_lose_nothing(shards, ask):
    for number in range(2):
        shards.start(number)
    create(ask, *NAMES)
    expected = Counter()

    def decide_all():
        for name in NAMES:
            answer = decide(ask, name)
            assert answer.status_code == 200, answer.text
            assert answer.json()["id"] == expected[name]
            expected[name] += 1

    decide_all()
    shards.directory.create(4)
    decide_all()  # the new shards are not there yet
    more = [shards.start(number) for number in (2, 3)]
    while not settled(shards):
        decide_all()
    assert len(set(map(shards.directory.owner, NAMES))) > 2
    decide_all()
    shards.directory.create(2)
    while not settled(shards):
        decide_all()
    for place in more:
        shards.stop(place)
    for number in (2, 3):
        shards.directory.retire(number)
    decide_all()
    assert [row.shard for row in shards.directory.shards()] == [0, 1]
    for name in NAMES:
        assert ask("GET", f"/v1/agents/{name}/health").json()["decisions"] == expected[name]


def test_storage_that_cannot_remove_snapshots_keeps_no_agent_from_moving(shards, ask, monkeypatch):
    failed = []

    def remove(_, agent, _until):
        failed.append(agent)
        raise OSError("the storage is away")

    monkeypatch.setattr(Snapshots, "remove", remove)
    shards.start(0)
    create(ask, "gone", *NAMES)
    assert ask("DELETE", "/v1/agents/gone").status_code == 204
    until(lambda: failed == ["gone"])
    shards.start(1)
    until(lambda: settled(shards))


def test_requests_for_an_agent_that_is_being_handed_over_wait_for_it(shards, ask, monkeypatch):
    for number in range(2):
        shards.start(number, settle=False)
    create(ask, *NAMES)
    zero = next(iter(shards.places.values())).shard
    name = next(name for name in NAMES if shards.directory.owner(name) == 0)
    released = ShardService.release
    answers = []

    def release(service, agent):
        """While it is released it is asked for, by a front whose requests wait until it has another place."""
        released(service, agent)
        answers.append(shards.run_later(zero.call("decide", {"agent": agent}, b'{"context": {}}')))

    monkeypatch.setattr(ShardService, "release", release)
    shards.run(zero._exclusively(name, zero_hand_over(zero, name)))
    answer = answers[0].result(60)
    assert (answer.kind, answer.value) == ("moved", 1)
    assert decide(ask, name).json()["id"] == 0


@pytest.mark.parametrize("call", ["decide", "save"])
def test_an_agent_that_moves_while_its_request_is_read_is_not_unknown(shards, ask, monkeypatch, call):
    """A large body is decoded on a thread, an export waits for others: meanwhile the agent was handed over, and 404."""
    for number in range(2):
        shards.start(number, settle=False)
    create(ask, *NAMES)
    zero = next(iter(shards.places.values())).shard
    name = next(name for name in NAMES if shards.directory.owner(name) == 0)
    handler = getattr(zero._api, call)

    async def moving(path, body):
        monkeypatch.undo()
        await zero._exclusively(name, zero_hand_over(zero, name))
        return await handler(path, body)

    monkeypatch.setattr(zero._api, call, moving)
    answer = shards.run(zero.call(call, {"agent": name}, b'{"context": {}}'))
    assert (answer.kind, answer.value) == ("moved", 1)


async def zero_hand_over(shard, name):
    await asyncio.to_thread(shard._hand_over, name, 1)


# --- leases ---


def test_a_shard_whose_lease_has_run_out_answers_nothing_and_is_replaced(new_shards, server):
    shards = new_shards(lease_seconds=60.0, wanted=1)
    with FrontWeb(shards) as ask:
        old = shards.start(0)
        create(ask, "a")
        assert decide(ask, "a").json()["id"] == 0
        frozen = shards.places[old].shard
        frozen.lease._until = 0.0
        for method, path in (("GET", "/v1/agents/a"), ("GET", "/v1/agents/a/decisions/7"), ("GET", "/v1/agents/none")):
            answer = ask(method, path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "renew its lease" in ask("GET", "/readyz").text
        server.tamper("UPDATE taciturn_shards SET lease = clock_timestamp()")
        shards.start(0)
        assert decide(ask, "a").json()["id"] == 1
        frozen.lease._until = 1e9
        answer = shards.run(frozen.call("decide", {"agent": "a"}, b'{"context": {"u": 1.0}}'))
        assert answer.kind == "problem"
        assert answer.value[0] == 503
        assert decide(ask, "a").json()["id"] == 2
        until(lambda: frozen.service.fatal is not None)


def test_a_lease_is_renewed_and_another_process_is_noticed_without_any_request(new_shards, server):
    shards = new_shards(lease_seconds=0.5, wanted=1)
    shards.start(0)
    (before,) = server.tamper("SELECT lease FROM taciturn_shards")
    until(lambda: server.tamper("SELECT lease FROM taciturn_shards")[0] > before)
    server.tamper("UPDATE taciturn_shards SET epoch = epoch + 1")
    until(lambda: shards.fenced)
    assert "another process is shard 0 now" in str(shards.fenced[0])


# --- what does not answer ---


def test_a_shard_that_hangs_is_given_up_when_another_process_is_it(shards, ask, server):
    shards.start(0)
    first = shards.start(1)
    create(ask, *NAMES)
    name = next(name for name in NAMES if shards.directory.owner(name) == 1)
    shards.places[first].reached = False

    async def replaced():
        waiting = asyncio.ensure_future(ask.router.ask_agent(name, "view", name))
        await asyncio.sleep(0)
        server.tamper("UPDATE taciturn_shards SET lease = clock_timestamp() WHERE shard = 1")
        ask.router.update(2, shards.directory.shards())
        await waiting

    with pytest.raises(Exception, match="does not answer"):
        ask._runner.run(replaced())
    assert decide(ask, name).status_code == 503
    shards.start(1)
    assert decide(ask, name).json()["id"] == 0
    assert decide(ask, next(name for name in NAMES if shards.directory.owner(name) == 0)).json()["id"] == 0


def test_a_front_without_shards_says_so(ask):
    assert "shard 0 is being restarted" in ask("GET", "/readyz").text
    assert decide(ask, "a").status_code == 503
    assert ask("GET", "/healthz").status_code == 200
    assert ask("GET", "/readyz/7").status_code == 404


# --- metrics ---


def test_metrics_add_up_over_shards(shards, ask):
    shards.start(0)
    shards.start(1)
    create(ask, *NAMES)
    for name in NAMES[:5]:
        decide(ask, name)
    families = {family.name: family.samples for family in text_string_to_metric_families(ask("GET", "/metrics").text)}
    decisions = families["taciturn_decisions"]
    assert sum(sample.value for sample in decisions) == 5
    assert {sample.labels["agent"] for sample in decisions} == set(NAMES)
    assert sum(sample.value for sample in families["taciturn_agents"]) == len(NAMES)
    assert {sample.labels["shard"] for sample in families["process_cpu_seconds"]} == {"0", "1", "front"}
    requests = [s for s in families["taciturn_request_seconds"] if s.name.endswith("_count")]
    assert sum(sample.value for sample in requests if sample.labels["method"] == "POST") == 5 + len(NAMES)


# --- the ring ---


def test_the_ring_is_even_and_one_shard_more_moves_few():
    names = [f"customer-{i}" for i in range(20_000)]
    for shards in (1, 2, 3, 4, 8, 16):
        before, after = Ring(shards), Ring(shards + 1)
        counts = Counter(map(before.owner, names))
        assert max(counts.values()) < 1.35 * len(names) / shards
        assert min(counts.values()) > 0.65 * len(names) / shards
        moved = [(before.owner(name), after.owner(name)) for name in names if before.owner(name) != after.owner(name)]
        assert all(to == shards for _, to in moved), "none moves between shards that were there"
        assert len(moved) < 1.35 * len(names) / (shards + 1)


def test_requests_wait_for_a_shard_that_is_being_started(shards, ask):
    shards.start(0)
    create(ask, *NAMES)
    name = next(name for name in NAMES if ring(2).owner(name) == 1)
    until(lambda: shards.directory.owner(name) == 0)

    async def started():
        router = Router(lambda place: shards.places[place], seconds=30.0, patience=60.0)
        waiting = asyncio.ensure_future(router.ask_agent(name, "call", "agent", {"agent": name}, b""))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        router.update(2, shards.directory.shards())
        return await waiting

    assert f'"{name}"'.encode() in asyncio.run(started())


def test_a_call_that_meets_an_agent_on_its_way_out_is_sent_on(shards, ask, monkeypatch):
    """Its request was read while the agent was being released: it was refused as if the service were stopping."""
    zero = shards.places[shards.start(0, settle=False)].shard
    shards.start(1, settle=False)
    create(ask, *NAMES)
    name = next(name for name in NAMES if shards.directory.owner(name) == 0)
    call_async = Service.call_async
    tasks = []

    async def late(service, agent, *arguments):
        if not tasks:
            tasks.append(asyncio.ensure_future(zero._exclusively(name, zero_hand_over(zero, name))))
            await asyncio.sleep(0)
            service._workers[agent].stop()
        return await call_async(service, agent, *arguments)

    monkeypatch.setattr(Service, "call_async", late)
    assert shards.run(zero.call("decide", {"agent": name}, b'{"context": {"u": 1.0}}')) == ("moved", 1)
    assert decide(ask, name).json()["id"] == 0


def test_deleted_agents_are_removed_with_their_snapshots_once_those_can_be(shards, ask, server, monkeypatch):
    place = shards.start(0, settle=False)
    shards.start(1, settle=False)
    create(ask, *NAMES)
    shard = shards.places[place].shard
    name = next(name for name in NAMES if shards.directory.owner(name) == 0)
    ask("DELETE", f"/v1/agents/{name}")
    stored = "SELECT count(*) FROM taciturn_entries WHERE agent = ?"

    def fails(*_):
        raise OSError("the storage is away")

    with monkeypatch.context() as away:
        away.setattr(Snapshots, "remove", fails)
        shard._remove_deleted()
    assert server.tamper(stored, name) == [(2,)]
    shard._remove_deleted()
    assert server.tamper(stored, name) == [(0,)]
