"""The agents of a service are a function of the journal: restarts, failed appends, errors, limits."""

import json
import threading
from concurrent.futures import Future

import msgspec
import numpy as np
import pytest

import taciturn
from service_kit import MemoryJournal
from taciturn.agents.linucb import LinUCB
from taciturn.agents.parts.encoder import GraphEncoder
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.service.api.problems import problem_of
from taciturn.service.core.errors import InternalError, Unavailable, UnknownAgent
from taciturn.service.core.jobs import Job, RewardBatchResult
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import (
    OPERATIONS,
    AddArm,
    Answered,
    Create,
    Decide,
    DecideRequest,
    Delete,
    Import,
    Label,
    LabelledRow,
    RetireArm,
    Reward,
    RewardBatch,
    TrainPending,
    Withdraw,
    decide_entry,
    entry_of,
    operation_of,
)
from taciturn.service.core.restore import CATALOGUE
from taciturn.service.core.service import Service
from taciturn.service.core.session import Session
from taciturn.service.journal.snapshots import Snapshots

ARMS = ["a", "b", "c"]
rng = np.random.default_rng(0)
CONTEXTS = rng.normal(size=(60, 4)).round(3).tolist()


def create(service, name="x", kind="linucb", **params):
    op = service.limits.bounded_create(Create(name, ARMS, kind, params))
    service.call(name, op)
    return Bare(taciturn.make(kind, arms=ARMS, **op.params), service.journal, name)


class Bare:
    """An agent without a service, which runs deferred training where the journal says that the served one did."""

    def __init__(self, agent, journal, name):
        self.agent, self.journal, self.name, self.seen = agent, journal, name, journal.last()
        agent.defer_training()

    def __getattr__(self, verb):
        if verb in ("health", "log", "state", "save", "params"):
            return getattr(self.agent, verb)

        def follow(*given, **options):
            kind = {"feedback": "reward"}.get(verb, verb)
            while True:
                record = self.journal.records[self.seen]
                self.seen += 1
                if record.agent == self.name and record.kind == "train":
                    self.agent.train_pending(operation_of("train", record.body).steps)
                elif record.agent == self.name:
                    assert record.kind == kind
                    return getattr(self.agent, verb)(*given, **options)

        return follow


def decide(service, context, name="x", **options):
    return json.loads(service.call(name, Decide(DecideRequest(context, **options))))


def equal(answer, decision):
    return (answer["id"], answer["arm"], answer["scores"], answer["widths"], answer["propensity"]) == (
        decision.id,
        decision.arm,
        decision.scores.tolist(),
        decision.widths.tolist(),
        decision.propensity,
    )


def live(service, bare, contexts, name="x"):
    """Decide and give feedback on both; all decisions must be equal."""
    for i, context in enumerate(contexts):
        answer, decision = decide(service, context, name), bare.decide(context)
        assert equal(answer, decision)
        if i % 3 != 2:
            reward = None if i % 5 == 0 else float(i % 2)
            service.call(name, Reward(decision.id, reward))
            bare.feedback(decision.id, reward)


@pytest.fixture
def opened():
    """Opens services, and closes them at the end."""
    services = []

    def idle():
        """Wait until no service writes a snapshot: one that was left as after a crash would not."""
        for service in services:
            if not service._stopping.is_set():  # private, as is the thread: nobody else needs to know
                service._snapshot_writer.submit(lambda: None).result(10)

    def open_service(*args, **options):
        idle()
        services.append(Service(*args, **options))
        services[-1].journal = args[0]
        return services[-1]

    yield open_service
    idle()
    for service in services:
        service.close()


@pytest.mark.parametrize("kind", ["linucb", "viewucb", "bilinucb-kmeans", "gcnucb"])
@pytest.mark.parametrize("every", [None, 7, 1000])
def test_restart_resumes_bit_for_bit(tmp_path, opened, kind, every):
    """From the journal alone, from snapshots in between, and from those of a graceful stop."""
    journal = MemoryJournal()
    snapshots = None if every is None else Snapshots(tmp_path)
    options = {"snapshot_every": every or 1}
    service = opened(journal, snapshots, **options)
    bare = create(service, kind=kind, epsilon=0.3, seed=5)
    other = create(service, "y")
    live(service, bare, CONTEXTS[:20])
    live(service, other, CONTEXTS[:5], "y")
    service.call("x", AddArm("d", "a"))
    bare.add_arm("d", "a")
    service.call("x", Withdraw(3))
    bare.withdraw(3)
    for crash in (False, True):
        if not crash:
            service.close()
        service = opened(journal, snapshots, **options)  # after a crash the old one still exists, but is idle
        if every is not None and not crash:
            assert journal.read_from == journal.last()  # the snapshots were enough
        live(service, other, CONTEXTS[5:7], "y")  # too little for a snapshot, and before the next one of x
        live(service, bare, CONTEXTS[20:30])


def test_damaged_snapshots_are_skipped(tmp_path, opened):
    journal, snapshots = MemoryJournal(), Snapshots(tmp_path, keep=3)
    service = opened(journal, snapshots, snapshot_every=10)
    bare = create(service)
    live(service, bare, CONTEXTS[:20])
    service.close()
    for agent, content in (("x", b"nonsense"), (CATALOGUE, b"{}}")):
        newest, _ = next(iter(snapshots.newest_first(agent)))
        snapshots.put(agent, newest, content)  # bad content with a good checksum
    live(opened(journal, snapshots), bare, CONTEXTS[20:25])


def test_deleted_agent_does_not_return_in_a_new_one_of_the_same_name(tmp_path, opened):
    journal, snapshots = MemoryJournal(), Snapshots(tmp_path)
    service = opened(journal, snapshots, snapshot_every=3)
    live(service, create(service, seed=1), CONTEXTS[:5])
    service.call("x", Delete())
    with pytest.raises(UnknownAgent, match="no agent 'x'"):
        decide(service, CONTEXTS[0])
    bare = create(service, kind="viewucb", seed=2)
    decide(service, CONTEXTS[0])
    bare.decide(CONTEXTS[0])
    live(opened(journal, snapshots), bare, CONTEXTS[:5])


@pytest.mark.parametrize("written", [False, True])
def test_after_a_failed_append_agents_are_what_the_journal_says(opened, written):
    """An entry whose append failed may be in the journal or not; the journal decides."""
    journal = MemoryJournal()
    service = opened(journal)
    bare, untouched = create(service), create(service, "y")
    live(service, bare, CONTEXTS[:8])
    live(service, untouched, CONTEXTS[:8], "y")
    setattr(journal, "failing_after" if written else "failing", 1)
    with pytest.raises(Unavailable):
        decide(service, CONTEXTS[8])
    assert service.writable.wait(10)
    if written:
        bare.decide(CONTEXTS[8])
    live(service, bare, CONTEXTS[9:20])
    live(service, untouched, CONTEXTS[9:20], "y")


def test_requests_during_a_failed_append_are_unavailable_or_durable(opened):
    """Many requests at once, to two agents: every decision that was answered is in the journal, and no other."""
    journal = MemoryJournal()
    service = opened(journal)
    bare = {name: create(service, name) for name in "xy"}
    hold = threading.Event()
    futures = []
    for name in "xy":
        service.put(name, Job(lambda _: hold.wait(), Future()))
        for context in CONTEXTS[:10]:
            futures.append((name, context, Future()))
            service.put(name, Job(Decide(DecideRequest(context)), futures[-1][2]))
    journal.failing = 1
    hold.set()
    for name, context, future in futures:
        if future.exception(10) is None:
            assert equal(json.loads(future.result()), bare[name].decide(context))
        else:
            assert isinstance(future.exception(), Unavailable)
    assert service.writable.wait(10)
    for name in "xy":
        live(service, bare[name], CONTEXTS[10:20], name)


def test_agent_whose_creation_was_not_written_does_not_exist(opened):
    journal = MemoryJournal()
    service = opened(journal)
    journal.failing = 1
    with pytest.raises(Unavailable):
        create(service)
    assert service.writable.wait(10)
    assert service.names() == []
    live(service, create(service), CONTEXTS[:3])


def overflow(self, _):
    return np.full(len(self.arm_names), np.nan), np.zeros(len(self.arm_names))


def test_scores_that_are_no_numbers_are_refused_and_change_nothing(opened, monkeypatch):
    """The agent has changed already when its scores are known, so it is restored; its caller gets a 422."""
    service = opened(MemoryJournal())
    bare = create(service)
    live(service, bare, CONTEXTS[:5])
    with monkeypatch.context() as patch:
        patch.setattr(LinUCB, "_score", overflow)  # private: a hook that is called after the agent has changed
        for _ in range(3):
            with pytest.raises(InvalidContext, match="overflows") as caught:
                decide(service, CONTEXTS[5])
            assert problem_of(caught.value).status == 422
    live(service, bare, CONTEXTS[5:10])


def test_unforeseen_error_changes_nothing(opened, monkeypatch, caplog):
    """The agent has changed already when its score fails, so it must be restored."""
    service = opened(MemoryJournal())
    bare = create(service)
    live(service, bare, CONTEXTS[:5])
    fails, score = iter([True]), LinUCB._score  # private: a hook that is called after the agent has changed
    with monkeypatch.context() as patch:  # it fails once: the agent is restored by another thread, maybe at once
        patch.setattr(LinUCB, "_score", lambda self, node: 1 / 0 if next(fails, False) else score(self, node))
        with pytest.raises(InternalError, match="request [0-9a-f]+; the log") as caught:
            decide(service, CONTEXTS[5])
    assert problem_of(caught.value).status == 500
    assert "ZeroDivisionError" in caplog.text
    live(service, bare, CONTEXTS[5:10])


def test_retry_has_the_same_answer_also_after_a_restart(tmp_path, opened):
    journal, snapshots = MemoryJournal(), Snapshots(tmp_path)
    service = opened(journal, snapshots)
    create(service, epsilon=0.9)
    first = decide(service, CONTEXTS[0], request_id="r")
    entries = journal.last()
    assert decide(service, CONTEXTS[0], request_id="r") == first
    for store in (None, snapshots):
        service.close()
        service = opened(journal, store)
        assert decide(service, CONTEXTS[0], request_id="r") == first
    assert journal.last() == entries


def test_replay_takes_times_from_the_journal(opened):
    journal, now = MemoryJournal(), [1000.0]
    service = opened(journal, clock=lambda: now[0])
    bare = create(service, expire_after=60, kind="ilinucb-random")
    for second in (1000.0, 1010.0, 990.0, 1075.0):  # the clock was set back in between
        now[0] = second
        assert equal(
            decide(service, CONTEXTS[0]), bare.decide(CONTEXTS[0], at=max(second, 1010.0 if second < 1000 else 0))
        )
    now = None  # reading the clock would fail from now on
    again = opened(journal)
    assert again.call("x", lambda session: session.agent.state(0)) == "silent"
    assert again.call("x", lambda session: session.agent.health().expired) == bare.health().expired > 0


def test_refused_request_does_not_advance_the_clock(opened):
    journal, now = MemoryJournal(), [1000.0]
    service = opened(journal, clock=lambda: now[0], limits=Limits(nodes=32, memory=100_000))
    create(service, expire_after=60)
    decide(service, {"a": 1.0})
    now[0] = 2000.0
    with pytest.raises(TaciturnError, match="memory_limit"):
        decide(service, {f"f{i}": 1.0 for i in range(100)})
    now[0] = 1010.0
    decide(service, {"a": 1.0})
    states = [s.call("x", lambda session: session.agent.state(0)) for s in (service, opened(journal))]
    assert states[0] == states[1]


def test_reward_batch_is_learned_completely_after_a_failed_append(opened):
    journal = MemoryJournal()
    service = opened(journal, learn_budget_ms=0)
    create(service)
    for context in CONTEXTS[:20]:
        decide(service, context)
    journal.failing, learned = 1, Future()
    service.put("x", Job(RewardBatch([Reward(id, 1.0) for id in range(20)]), learned))
    assert learned.result(10) == RewardBatchResult(20, [])
    for found in (service, opened(journal)):
        assert found.call("x", lambda session: session.agent.health().rewarded) == 20


def test_decision_waits_for_at_most_one_step_of_deferred_training(opened, monkeypatch):
    """The first step blocks until a decision is queued, which comes next, however much training is left."""
    journal, begun, release = MemoryJournal(), threading.Event(), threading.Event()
    service = opened(journal, learn_budget_ms=10_000)
    bare = create(service, kind="gcnucb", warmup=0)
    live(service, bare, CONTEXTS[:6])
    service.call("x", lambda session: session.agent.train_pending(1000))
    before = journal.last()
    step = GraphEncoder.train_step

    def held(encoder):
        begun.set()
        assert release.wait(10)
        return step(encoder)

    monkeypatch.setattr(GraphEncoder, "train_step", held)
    answers = [Future() for _ in range(8)]
    hold = threading.Event()
    service.put("x", Job(lambda _: hold.wait(), Future()))
    for answer in answers[:7]:  # together, so that seven steps are deferred at once
        service.put("x", Job(Decide(DecideRequest(CONTEXTS[0])), answer))
    hold.set()
    assert begun.wait(10)
    service.put("x", Job(Decide(DecideRequest(CONTEXTS[1])), answers[7]))
    release.set()
    for answer in answers:
        answer.result(10)
    records = journal.records[before:]
    kinds = [record.kind for record in records]
    last = len(kinds) - 1 - kinds[::-1].index("decide")
    steps = [operation_of("train", record.body).steps for record in records[:last] if record.kind == "train"]
    assert steps[-1] == 1, "one step, and then the decision that waited"


def test_agents_do_not_wait_for_each_other_and_decisions_do_not_wait_for_learning(opened):
    journal = MemoryJournal()
    service = opened(journal, learn_budget_ms=0)
    bare = create(service)
    create(service, "y")
    live(service, bare, CONTEXTS[:30])
    hold, decided = threading.Event(), Future()
    service.put("x", Job(lambda _: hold.wait(), Future()))
    decide(service, CONTEXTS[0], "y")  # while x is blocked
    before = journal.last()
    rewards = RewardBatch([Reward(id, 0.5) for id in range(30)])
    learned = Future()
    service.put("x", Job(rewards, learned))
    service.put("x", Job(Decide(DecideRequest(CONTEXTS[0])), decided))
    hold.set()
    assert learned.result(10) == RewardBatchResult(30, [])
    decided.result(10)
    kinds = [record.kind for record in journal.records[before:]]
    assert kinds.count("rewards") == 30, "each in a slice of its own"
    assert kinds.index("decide") <= 1


@pytest.mark.parametrize(
    ("op", "limits", "message"),
    [
        (Create("x", 5, "linucb"), {"arms": 4}, "too many arms"),
        (Create("x", 2, "linucb", {"arms": 3}), {}, "arms are not given"),
        (Create("x", 2, "bilinucb-gcn", {"imputer": {}}), {}, "by its name"),
        (
            Create("x", 2, "bilinucb-gcn", {"imputer_params": 3}),
            {},
            "imputer_params=3 is not allowed; a dict of settings is",
        ),
        (Create("x", 2, "bilinucb-gcn", {"imputer_params": {"epochs": 10**6}}), {}, "too large a number"),
        (Create("x", 2, "linucb", {"seed": 2**60}), {}, "too large a number"),
        (Create("x", 2, "linucb", {"alpha": "much"}), {}, "alpha"),
        (Create("x", [1, "1"], "linucb"), {}, "same name as text"),
        (Create("x", 2, "oracle-full"), {}, "unknown kind"),
        (Create("x", 2, "tests.mine:Agent"), {}, "unknown kind"),
    ],
)
def test_agent_outside_the_limits_is_not_created(opened, op, limits, message):
    service = opened(MemoryJournal(), limits=Limits(**limits))
    with pytest.raises(TaciturnError, match=message):
        service.call("x", service.limits.bounded_create(op))
    assert service.names() == []
    live(service, create(service), CONTEXTS[:2])


def test_limits_are_stored_with_the_agent(opened):
    """So that it is the same agent under other limits."""
    journal = MemoryJournal()
    service = opened(journal, limits=Limits(nodes=20, memory=1e6))
    bare = create(service, max_nodes=10**9)
    assert bare.params["max_nodes"] == 20
    assert bare.params["memory_limit"] == 1e6
    live(service, bare, CONTEXTS[:10])
    live(opened(journal), bare, CONTEXTS[10:30])


def test_untrusted_files_are_imported_or_refused(opened, tmp_path):
    service = opened(MemoryJournal())
    bare = create(service)
    live(service, bare, CONTEXTS[:5])
    file = bytes(service.call("x", lambda session: session.export()))
    service.call("copy", service.limits.bounded_import(file))
    bare.name, bare.seen = "copy", service.journal.last()
    live(service, bare, CONTEXTS[5:9], "copy")
    bare.save(tmp_path / "own")
    reference = taciturn.make("majority", arms=2)
    reference.save(tmp_path / "reference")
    for content in (b"", file[:-1], file[:100] + b"\0" + file[101:], (tmp_path / "reference").read_bytes()):
        with pytest.raises(TaciturnError):
            service.call("bad", service.limits.bounded_import(content))
    assert service.names() == ["copy", "x"]


def test_every_operation_is_decoded_as_it_was_encoded():
    request = b'{"contexts": [[1, 2], {"a": 1}], "neighbors": [[0], null], "allowed": ["a", 3], "request_id": "r"}'
    op = Decide(msgspec.json.decode(request, type=DecideRequest), 12.5)
    ops = [
        Create("x", ["a", 1], "linucb", {"alpha": 0.1, "scaling": "auto", "covariance": "auto"}, False),
        op,
        Reward(3, None),
        Withdraw(2),
        AddArm("z"),
        Label([LabelledRow({"note": "late"}, "a")]),
    ]
    ops += [RewardBatch([Reward(3, 1.0)]), TrainPending(4), RetireArm(4), Import(b"\0\xff", 16, 1e9), Delete()]
    assert {type(given) for given in ops} == set(OPERATIONS.values())
    for given in ops:
        entry = entry_of("x", given)
        assert operation_of(entry.kind, entry.body) == given
    answered = [Answered(7, 3, [0.25, None], [1.0, 0.1], 0.5), Answered(8, "a", [], [], 1.0)]
    for raw in (None, request):
        entry = decide_entry("x", op, msgspec.json.encode(answered), raw)
        assert operation_of(entry.kind, entry.body) == msgspec.structs.replace(op, decisions=answered)


def test_session_is_rebuilt_from_its_state():
    session = Session()
    session.apply(Create("x", ARMS, "linucb", {"expire_after": 5}, corrections=False))
    session.apply(Decide(DecideRequest(CONTEXTS[0], request_id="r"), 1.0))
    again = Session.from_state_dict(session.state_dict())
    assert again.state_dict() == session.state_dict()
    assert (again.about("x"), again.requests, again.pending(2.0)) == (session.about("x"), session.requests, 1)


def test_oldest_decisions_make_room_for_new_ones(opened):
    """An agent with too many pending decisions refused every decision, and so none of them ever expired."""
    now = [0.0]
    service = opened(MemoryJournal(), clock=lambda: now[0])
    create(service, expire_after=1.0, max_nodes=16)
    for _ in range(8):
        decide(service, CONTEXTS[0])
    with pytest.raises(TaciturnError, match="can wait for their feedback"):
        service.call("x", Decide(DecideRequest(contexts=CONTEXTS[:1] * 9)))
    for _ in range(20):
        decide(service, CONTEXTS[0])
    states = service.call("x", lambda session: [session.agent.state(id) for id in list(session.agent.decisions)])
    assert states == ["silent"] * (len(states) - 8) + ["pending"] * 8
    now[0] = 100.0
    assert decide(service, CONTEXTS[0])["id"] == 28
    assert service.call("x", lambda session: session.pending(now[0])) == 1


def test_agent_that_could_not_be_restored_is_found_again_at_the_next_start(opened, tmp_path):
    """A catalogue written meanwhile did not have it, and the next start read the journal only from there."""
    journal, snapshots = MemoryJournal(), Snapshots(tmp_path)
    service = opened(journal)
    bare = create(service)
    live(service, bare, CONTEXTS[:3])
    create(service, "y")
    service.close()
    good, at = journal.records[1], 1
    journal.records[at] = good._replace(body=b'{"request":{"context":[]}}')
    service = opened(journal, snapshots)
    assert service.names() == ["y"]
    service.close()
    journal.records[at] = good
    live(opened(journal, snapshots), bare, CONTEXTS[3:6])


def test_close_during_recovery_loses_no_agent(opened, tmp_path):
    journal, snapshots = MemoryJournal(), Snapshots(tmp_path)
    service = opened(journal, snapshots, retry_seconds=30.0)
    bare = create(service)
    live(service, bare, CONTEXTS[:3])
    service.failures, journal.failing = 3, 1  # as after earlier failures, so that there is a pause to stop in
    with pytest.raises(TaciturnError):
        decide(service, CONTEXTS[0])
    service.close()
    live(opened(journal, snapshots), bare, CONTEXTS[3:6])


def test_request_without_a_context_is_refused_alone(opened):
    service = opened(MemoryJournal())
    bare = create(service)
    with pytest.raises(TaciturnError, match="either a context or contexts"):
        service.call("x", Decide(DecideRequest()))
    live(service, bare, CONTEXTS[:2])
