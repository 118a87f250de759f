"""Ctrl-C, and other signals, in the middle of a call: what the call changes is changed as a whole, or not at all."""

import asyncio
import inspect
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import taciturn
from taciturn.agents import table
from taciturn.system import HELD, Uninterrupted

SOURCES = str(Path(taciturn.__file__).parent)


@contextmanager
def handled(handlers):
    """Within the block, signals have such handlers."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_block_ends_before_an_interrupt_is_raised():
    done = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("within")
        done.append("without")
    assert done == ["within", "without"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_within_a_block_stays_what_it_was_and_ctrl_c_is_heard_again():
    with pytest.raises(ValueError, match="mine"), Uninterrupted():
        raise ValueError("mine")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_all_that_came_within_a_block_is_heard_after_it():
    heard = []

    def hear(number, frame):
        heard.append((number, frame is not None))
        raise TimeoutError

    with handled(dict.fromkeys(HELD, hear)):
        with pytest.raises(TimeoutError), Uninterrupted():
            for number in HELD:
                signal.raise_signal(number)
            assert heard == []
        assert sorted(heard) == sorted((number, True) for number in HELD)
        assert {signal.getsignal(number) for number in HELD} == {hear}


def test_ignored_signals_and_other_threads_are_left_alone():
    found = []

    def enter():
        with Uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    with handled({signal.SIGTERM: signal.SIG_IGN}), Uninterrupted():
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


@contextmanager
def tracing(at, happen, *, by="line"):
    """Within the block, `happen` at one of the lines, or instructions (`by="opcode"`), of taciturn; counts them."""
    counted = [0]

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(SOURCES) or frame.f_code.co_flags & inspect.CO_GENERATOR:
            return None  # what is raised while a generator is closed is not heard at all
        frame.f_trace_opcodes = by == "opcode"
        if event == by:
            counted[0] += 1
            if counted[0] == at + 1:
                happen()
        return trace

    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_handlers_are_back_wherever_a_signal_comes(error):
    """At each instruction of the block's beginning and end, be it held already or not."""
    heard = []

    def hear(*_):
        heard.append("term")
        raise error

    def enter(at):
        with tracing(at, lambda: signal.raise_signal(signal.SIGTERM), by="opcode") as counted, Uninterrupted():
            pass
        return counted[0]

    with handled({signal.SIGTERM: hear}):
        count = enter(10**6)
        assert count > 20
        for at in range(count):
            # Setting a handler in another thread raises a ValueError too: one that comes before is taken for that.
            with pytest.raises(error) if error is TimeoutError else suppress(error):
                enter(at)
            assert len(heard) == at + 1
            assert signal.getsignal(signal.SIGTERM) is hear
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_event_loop_hears_a_signal_once():
    """It reads signals from a file beside its handler, which does nothing."""
    heard = []

    async def hear():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, heard.append, "term")
        with Uninterrupted():
            signal.raise_signal(signal.SIGTERM)
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(hear())
    assert heard == ["term"]


def test_the_second_ctrl_c_of_asyncio_waits_too():
    agent = taciturn.make("viewucb", arms=2, seed=0)
    at_once = []
    with tracing(-1, None) as counted:
        agent.fork().decide([1.0, 2.0])

    async def decide():
        with tracing(counted[0] // 2, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(2)]):
            agent.decide([1.0, 2.0])
            at_once.append("decided")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(decide())
    assert at_once == []
    assert agent.next_id == 1
    assert agent.decide([1.0, 2.0]).id == 1


X = np.random.default_rng(0).normal(size=(90, 6))

VERBS = {
    "decide": lambda agent: agent.decide(X[agent.next_id % 80]),
    "reward": lambda agent: agent.feedback(agent.next_id - 1, agent.next_id % 2),
    "silence": lambda agent: agent.feedback(agent.next_id - 1, None),
    "withdraw": lambda agent: agent.withdraw(int(agent.log()["ids"][3])),
    "explain": lambda agent: agent.explain(agent.next_id - 1),
    "health": lambda agent: agent.health(),
    "retire": lambda agent: agent.retire_arm(agent.active_arms[-1]),
    "bring back": lambda agent: agent.add_arm(min(set(agent.arm_names) - set(agent.active_arms))),
    "add": lambda agent: agent.add_arm(len(agent.arm_names)),
    "defer": lambda agent: agent.defer_training(on=not agent.deferred),
    "train": lambda agent: agent.train_pending(),
    "reseed": lambda agent: agent.reseed(agent.seed + 1),
}


MOST_LINES = 60
"""Calls of so few lines are interrupted at each of them."""


def said(agent, folder):
    """What an agent, and the one of its file, will say."""
    agent.save(folder / "agent")
    answers = [agent.active_arms, agent.deferred, agent.seed]
    for one in (agent.fork(), taciturn.load(folder / "agent")):
        answers.append([])
        for x in X[80:84]:
            decision = one.decide(x)
            one.feedback(decision.id, 1)
            why = one.explain(decision.id)
            answers[-1] += [decision.propensity, decision.scores.tobytes(), decision.widths.tobytes(), str(why)]
    assert answers[-2] == answers[-1]
    return answers


@pytest.mark.parametrize("method", ["linucb", "viewucb", "gcnucb", "bilinucb-kmeans", "rogcn"])
def test_an_interrupted_call_has_been_or_has_not(method, tmp_path):
    """In a random order, at random lines: agents crashed later, or were not as their files."""
    draw, agent = np.random.default_rng(0), taciturn.make(method, arms=3, seed=0, max_nodes=24, epsilon=0.2)
    for x in X[:30]:
        agent.feedback(agent.decide(x).id, 1)
    agent.retire_arm(1)
    for verb in [*draw.permutation([*VERBS, "withdraw", "explain"]).tolist(), *VERBS]:
        after, counting = agent.fork(), agent.fork()
        with tracing(-1, None) as counted:
            VERBS[verb](counting)
        VERBS[verb](after)
        allowed = [said(agent, tmp_path), said(after, tmp_path)]
        is_tried_whole = method == "linucb" and counted[0] <= MOST_LINES  # what all agents have is tried in one
        lines = range(counted[0]) if is_tried_whole else draw.choice(counted[0], size=6, replace=False).tolist()
        for at in lines:
            tried = agent.fork()
            with pytest.raises(KeyboardInterrupt), tracing(at, lambda: signal.raise_signal(signal.SIGINT)):
                VERBS[verb](tried)
            assert said(tried, tmp_path) in allowed, (verb, at)
        agent = after


def test_columns_that_could_not_grow_are_not_counted(monkeypatch):
    """A graph was thought to be up to date, and its kernels read beyond its arrays."""
    agent = taciturn.make("viewucb", arms=3, seed=0)
    for x in X[:60]:
        agent.decide(x)
    agent.withdraw(50)
    wanted = str(agent.fork().explain(59))

    def fail(*_):
        raise MemoryError

    for name in ("grown", "with_spare"):
        with monkeypatch.context() as patched, pytest.raises(MemoryError):
            patched.setattr(table, name, fail)
            agent.explain(59)
            raise MemoryError  # where there was room
    assert str(agent.explain(59)) == wanted
