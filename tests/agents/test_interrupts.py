"""Ctrl-C in the middle of a call: what the call changes is changed as a whole."""

import signal
import threading

import numpy as np
import pytest

import taciturn
from taciturn.system import Uninterrupted

SETTINGS = {"seed": 0, "max_nodes": 16}

PLACES = {
    "": ("_add_context", "_score"),
    "_intake": ("append", "observe", "forget", "renewed"),
    "_lifecycle": ("_learn", "_unlearn", "_keep"),
}
"""Where Ctrl-C comes, before and after: methods of an agent, and of what it has."""


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


def test_other_handlers_and_threads_are_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("mine"))
    try:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert heard == ["mine"]
    finally:
        signal.signal(signal.SIGINT, before)

    def enter():
        with Uninterrupted():
            heard.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert heard[1:] == [signal.default_int_handler]


def interrupted(function):
    """The same function, with Ctrl-C before it and after it."""

    def call(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        found = function(*arguments, **options)
        signal.raise_signal(signal.SIGINT)
        return found

    return call


def lived(method, monkeypatch, folder, *, interrupts):
    """What an agent says, whose decisions, corrections, evictions and arms may all be interrupted."""
    agent, said = taciturn.make(method, arms=3, **SETTINGS), []
    X = np.random.default_rng(0).normal(size=(60, 6))

    def call(verb, *arguments):
        if not interrupts:
            getattr(agent, verb)(*arguments)
            return
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            for of, names in PLACES.items():
                for name in names:
                    part = getattr(agent, of) if of else agent
                    patched.setattr(part, name, interrupted(getattr(part, name)))
            getattr(agent, verb)(*arguments)

    for step, x in enumerate(X):
        call("decide", x)
        call("feedback", agent.next_id - 1, (1, 0, 1)[step % 3])
        if step % 7 == 6:
            call("feedback", agent.next_id - 1, (0, 1, 0)[step % 3])
            call("withdraw", agent.next_id - 2)
        if step % 20 == 19:
            agent.add_arm(f"arm {step}")
            agent.save(folder / "agent")
            agent = taciturn.load(folder / "agent")
        decision = agent.decide(x[::-1])
        said.append(np.concatenate([decision.scores, decision.widths]))
    return said


@pytest.mark.parametrize("method", ["linucb", "viewucb", "gcnucb", "bilinucb-kmeans", "rogcn"])
def test_an_interrupted_agent_is_as_if_the_call_had_ended(method, monkeypatch, tmp_path):
    """Parts of an agent were left with contexts of their own: it crashed later, or its file was refused."""
    said = lived(method, monkeypatch, tmp_path, interrupts=True)
    wanted = lived(method, monkeypatch, tmp_path, interrupts=False)
    for one, another in zip(said, wanted, strict=True):
        np.testing.assert_array_equal(one, another)
