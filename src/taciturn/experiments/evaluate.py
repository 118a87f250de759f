"""Evaluate one agent on one stream, step by step."""

import heapq
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import cast

import numpy as np

from taciturn.agents.warm import prepare
from taciturn.contracts import Agent, Dataset, FullFeedbackAgent, Round, Trace
from taciturn.errors import ForgottenDecision, TaciturnError
from taciturn.experiments.axes import parse_restart, restarted
from taciturn.experiments.progress import steps_bar
from taciturn.measures import measure_of
from taciturn.streams.stream import Stream


def evaluate(
    agent: Agent,
    stream: Stream,
    *,
    progress: bool | Callable[[float], object] | None = None,
    restart: float | str | None = None,
    anew: Callable[[], Agent] | None = None,
) -> Trace:
    """Run an agent over a stream and return its choices, rewards and times at each step.

    Kernels that are not compiled yet are compiled before the clock starts.

    Arguments:
        agent: a fresh agent with the stream's arms; it learns. With `expire_after` set it is not sent `None` for
            missing rewards, and has to let its decisions expire. Late rewards of decisions that it has forgotten, as
            agents with `max_nodes` do, are lost.
        stream: the environment.
        progress: whether to show a progress bar; by default in a notebook or terminal, after two seconds. Or a callback
            for each step, called with whether the arm was right, or with what it earned where rewards are graded.
        restart: the share of the rounds after which the agent is saved to a file and another goes on that was loaded
            from it, with rewards still on their way; None for no restart.
        anew: makes a fresh agent for the restart of one that has no `save`. It gets the labelled start again, and
            learns from its own decisions: rewards of earlier ones are lost, and so are they as neighbors.
    """
    if not (hasattr(agent, "decide") and hasattr(stream, "respond")):
        given = f"{type(agent).__name__} and {type(stream).__name__}"
        raise TaciturnError(f"evaluate takes an agent and a stream, in this order; given were {given}")
    restart_step = None if (share := parse_restart(restart)) is None else round(share * len(stream))
    if list(agent.arm_names) != list(stream.arms):
        raise TaciturnError(
            f"the agent has the arms {list(agent.arm_names)[:9]}; the stream's arms {list(stream.arms)[:9]} are needed"
        )
    if stream.graded and isinstance(agent, FullFeedbackAgent):
        raise TaciturnError(told_the_right_arm(type(agent).__name__, stream.dataset))
    prepare(agent)
    learner = _Learner(agent, stream)
    del agent  # a restart drops it
    if callable(progress):
        return _run(learner, progress, restart_step, anew)
    with steps_bar(len(stream), shown=progress, measure=measure_of(graded=stream.graded)) as advance:
        return _run(learner, advance, restart_step, anew)


def told_the_right_arm(agent: str, dataset: Dataset) -> str:
    """Return why an agent that is told the right arm cannot be evaluated where every arm has a reward."""
    return f"{agent} is told the right arm after every decision; {dataset.name} has a reward for every arm instead"


class _Learner:
    """An agent on a stream, with the ids of its decisions by position and the rewards that are on their way."""

    def __init__(self, agent: Agent, stream: Stream) -> None:
        self.stream = stream
        self._agents = [agent]  # a list, so that one can be dropped before the next is made
        self._sends_silence = agent.params.get("expire_after") is None
        self.ids: dict[int, int] = {}
        self._queue: list[tuple[int, int, int, float | None]] = []  # a heap of (step of delivery, step, id, reward)

    @property
    def agent(self) -> Agent:
        """The agent that decides now."""
        return self._agents[0]

    def warm_start(self) -> None:
        """Give the labelled rows, if there are any."""
        start = self.stream.start
        if start.arms:
            self.ids.update(enumerate(self.agent.warm_start(start.contexts, start.arms, edges=start.edges)))

    def neighbors(self, round: Round) -> list[int] | None:
        """Return the ids of the neighbors in a round that this agent has seen; None where there is no graph."""
        if round.neighbors is None:
            return None
        return [self.ids[position] for position in round.neighbors if position in self.ids]

    def send(self, step: int, delay: int, id: int, reward: float | None) -> None:
        """Put a reward on its way, and silence unless the agent finds out about it by itself."""
        if reward is not None or self._sends_silence:
            heapq.heappush(self._queue, (step + delay, step, id, reward))

    def deliver(self, step: int) -> None:
        """Give the rewards that have come by this step; those of decisions that the agent has forgotten are lost."""
        while self._queue and self._queue[0][0] <= step:
            with suppress(ForgottenDecision):
                self.agent.feedback(*heapq.heappop(self._queue)[2:])

    def restart(self, anew: Callable[[], Agent] | None) -> None:
        """Go on with the agent as it was saved, or with a fresh one, which knows nothing of what was before."""
        agent, resumes = restarted(self._agents, anew)
        self._agents = [agent]
        if not resumes:
            self.ids, self._queue = {}, []
            self.warm_start()


def _run(
    learner: _Learner,
    advance: Callable[[float], object],
    restart_step: int | None,
    anew: Callable[[], Agent] | None,
) -> Trace:
    stream = learner.stream
    index = {name: k for k, name in enumerate(stream.arms)}
    choices = np.zeros(len(stream), np.int64)
    rewards = np.full(len(stream), np.nan)
    correct = np.zeros(len(stream), bool)
    earned = np.zeros(len(stream))
    step_seconds = np.zeros(len(stream))
    started = perf_counter()
    learner.warm_start()
    truth, is_told = stream.truth, isinstance(learner.agent, FullFeedbackAgent)
    for step, round in enumerate(stream):
        if step == restart_step:
            learner.restart(anew)
        neighbors = learner.neighbors(round)
        before = perf_counter()
        decision = learner.agent.decide(round.context, neighbors=neighbors)
        decided = perf_counter()
        reward = stream.respond(round, decision.arm)
        responded = perf_counter()
        if is_told:
            reward = float(stream.is_right(round, decision.arm))
            cast("FullFeedbackAgent", learner.agent).reveal(decision.id, stream.arms[truth[round.position]])
        else:
            learner.send(step, stream.delay(round), decision.id, reward)
        learner.deliver(step)
        step_seconds[step] = decided - before + perf_counter() - responded
        learner.ids[round.position] = decision.id
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
        learner.agent.params,
        stream.best_constant_arm,
        earned,
        stream.best_rewards,
        stream.graded,
        stream.drift_step,
    )
