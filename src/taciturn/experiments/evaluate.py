"""One agent on one stream, step by step."""

import heapq
from collections.abc import Callable
from time import perf_counter

import numpy as np

from taciturn.contracts import Agent, FullFeedbackAgent, Trace
from taciturn.errors import TaciturnError
from taciturn.experiments.progress import steps_bar
from taciturn.streams.stream import Stream


def evaluate(agent: Agent, stream: Stream, *, progress: bool | Callable[[bool], object] = False) -> Trace:
    """Run an agent over a stream and return what happened at each step.

    Arguments:
        agent: a fresh agent with the stream's arms; it learns. If it has `expire_after`, silence is left to it: nobody
            says that an answer will never come.
        stream: the environment.
        progress: True shows a bar on the terminal; or a function to call after each step with whether it was right.
    """
    if list(agent.arm_names) != list(stream.arms):
        raise TaciturnError(
            f"the agent's arms {list(agent.arm_names)[:9]} are not the stream's {list(stream.arms)[:9]}"
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
    began = perf_counter()
    start = stream.start
    ids = list(agent.warm_start(start.contexts, start.arms, edges=start.edges))  # by position in the stream
    told, truth = agent if isinstance(agent, FullFeedbackAgent) else None, stream.truth
    announced = agent.params.get("expire_after") is None
    waiting: list[tuple[int, int, int, float | None]] = []  # a heap of (when it comes, step, id, reward)
    for step, round in enumerate(stream):
        near = None if round.neighbors is None else [ids[position] for position in round.neighbors]
        before = perf_counter()
        decision = agent.decide(round.context, neighbors=near)
        decided = perf_counter()
        reward = stream.respond(round, decision.arm)
        answered = perf_counter()
        if told:
            reward = float(stream.is_right(round, decision.arm))
            told.reveal(decision.id, stream.arms[truth[round.position]])
        elif reward is not None or announced:
            heapq.heappush(waiting, (step + stream.delay(round), step, decision.id, reward))
        while waiting and waiting[0][0] <= step:
            agent.feedback(*heapq.heappop(waiting)[2:])
        step_seconds[step] = decided - before + perf_counter() - answered
        ids.append(decision.id)
        choices[step] = index[decision.arm]
        rewards[step] = np.nan if reward is None else reward
        correct[step] = stream.is_right(round, decision.arm)
        advance(bool(correct[step]))
    return Trace(tuple(stream.arms), choices, rewards, correct, step_seconds, perf_counter() - began, agent.params)
