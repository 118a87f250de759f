"""Evaluate one agent on one stream, step by step."""

import heapq
from collections.abc import Callable
from time import perf_counter

import numpy as np

from taciturn.agents.warm import prepare
from taciturn.contracts import Agent, Dataset, FullFeedbackAgent, Trace
from taciturn.errors import TaciturnError
from taciturn.experiments.progress import steps_bar
from taciturn.measures import measure_of
from taciturn.streams.stream import Stream


def evaluate(agent: Agent, stream: Stream, *, progress: bool | Callable[[float], object] | None = None) -> Trace:
    """Run an agent over a stream and return its choices, rewards and times at each step.

    Kernels that are not compiled yet are compiled before the clock starts.

    Arguments:
        agent: a fresh agent with the stream's arms; it learns. With `expire_after` set it is not sent `None` for
            missing rewards, and has to let its decisions expire.
        stream: the environment.
        progress: whether to show a progress bar; by default in a notebook or terminal, after two seconds. Or a callback
            for each step, called with whether the arm was right, or with what it earned where rewards are graded.
    """
    if list(agent.arm_names) != list(stream.arms):
        raise TaciturnError(
            f"the agent has the arms {list(agent.arm_names)[:9]}; the stream's arms {list(stream.arms)[:9]} are needed"
        )
    if stream.graded and isinstance(agent, FullFeedbackAgent):
        raise TaciturnError(told_the_right_arm(type(agent).__name__, stream.dataset))
    prepare(agent)
    if callable(progress):
        return _run(agent, stream, progress)
    with steps_bar(len(stream), shown=progress, measure=measure_of(graded=stream.graded)) as advance:
        return _run(agent, stream, advance)


def told_the_right_arm(agent: str, dataset: Dataset) -> str:
    """Return why an agent that is told the right arm cannot be evaluated where every arm has a reward."""
    return f"{agent} is told the right arm after every decision; {dataset.name} has a reward for every arm instead"


def _run(agent: Agent, stream: Stream, advance: Callable[[float], object]) -> Trace:
    index = {name: k for k, name in enumerate(stream.arms)}
    choices = np.zeros(len(stream), np.int64)
    rewards = np.full(len(stream), np.nan)
    correct = np.zeros(len(stream), bool)
    earned = np.zeros(len(stream))
    step_seconds = np.zeros(len(stream))
    started = perf_counter()
    start = stream.start
    ids = list(agent.warm_start(start.contexts, start.arms, edges=start.edges)) if start.arms else []  # by position
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
        earned[step] = stream.reward_of(round, decision.arm)
        advance(float(earned[step]) if stream.graded else bool(correct[step]))
    seconds = perf_counter() - started
    return Trace(
        tuple(stream.arms),
        choices,
        rewards,
        correct,
        step_seconds,
        seconds,
        agent.params,
        stream.best_constant_arm,
        earned,
        stream.best_rewards,
        stream.graded,
    )
