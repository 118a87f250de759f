"""Evaluate one agent on one stream, step by step."""

import heapq
from collections.abc import Callable
from time import perf_counter

import numpy as np

from taciturn.contracts import Agent, FullFeedbackAgent, Trace
from taciturn.errors import TaciturnError
from taciturn.experiments.progress import steps_bar
from taciturn.streams.stream import Stream


def evaluate(agent: Agent, stream: Stream, *, progress: bool | Callable[[bool], object] | None = None) -> Trace:
    """Run an agent over a stream and return its choices, rewards and times at each step.

    Arguments:
        agent: a fresh agent with the stream's arms; it learns. With `expire_after` set it is not sent `None` for
            missing rewards, and has to let its decisions expire.
        stream: the environment.
        progress: whether to show a progress bar; by default in a notebook or terminal, after two seconds. Or a callback
            for each step, called with whether the arm was right.
    """
    if list(agent.arm_names) != list(stream.arms):
        raise TaciturnError(
            f"the agent has the arms {list(agent.arm_names)[:9]}; the stream's arms {list(stream.arms)[:9]} are needed"
        )
    if callable(progress):
        return _run(agent, stream, progress)
    with steps_bar(len(stream), shown=progress) as advance:
        return _run(agent, stream, advance)


def _run(agent: Agent, stream: Stream, advance: Callable[[bool], object]) -> Trace:
    index = {name: k for k, name in enumerate(stream.arms)}
    choices = np.zeros(len(stream), np.int64)
    rewards = np.full(len(stream), np.nan)
    correct = np.zeros(len(stream), bool)
    step_seconds = np.zeros(len(stream))
    started = perf_counter()
    start = stream.start
    ids = list(agent.warm_start(start.contexts, start.arms, edges=start.edges))  # indexed by position in the stream
    full_feedback, truth = agent if isinstance(agent, FullFeedbackAgent) else None, stream.truth
    sends_silence = agent.params.get("expire_after") is None
    queue: list[tuple[int, int, int, float | None]] = []  # a heap of (step of delivery, step, id, reward)
    for step, round in enumerate(stream):
        neighbors = None if round.neighbors is None else [ids[position] for position in round.neighbors]
        before = perf_counter()
        decision = agent.decide(round.context, neighbors=neighbors)
        decided = perf_counter()
        reward = stream.respond(round, decision.arm)
        responded = perf_counter()
        if full_feedback:
            reward = float(stream.is_right(round, decision.arm))
            full_feedback.reveal(decision.id, stream.arms[truth[round.position]])
        elif reward is not None or sends_silence:
            heapq.heappush(queue, (step + stream.delay(round), step, decision.id, reward))
        while queue and queue[0][0] <= step:
            agent.feedback(*heapq.heappop(queue)[2:])
        step_seconds[step] = decided - before + perf_counter() - responded
        ids.append(decision.id)
        choices[step] = index[decision.arm]
        rewards[step] = np.nan if reward is None else reward
        correct[step] = stream.is_right(round, decision.arm)
        advance(bool(correct[step]))
    seconds, best = perf_counter() - started, stream.best_constant_arm
    return Trace(tuple(stream.arms), choices, rewards, correct, step_seconds, seconds, agent.params, best)
