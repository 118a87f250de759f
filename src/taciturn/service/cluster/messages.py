"""What fronts and shards say to each other."""

from typing import Any, Literal, NamedTuple

from taciturn.service.api.problems import Problem

Kind = Literal["done", "moved", "problem"]


class Answer(NamedTuple):
    """The answer of a shard: what was asked for, the shard that has the agent, or the fields of a `Problem`."""

    kind: Kind
    value: Any


def problem_answer(problem: Problem) -> Answer:
    """A problem as an answer."""
    return Answer("problem", (problem.status, problem.slug, problem.detail, problem.field))
