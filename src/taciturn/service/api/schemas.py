"""Bodies of HTTP requests and answers, as far as they are not operations of the journal."""

from typing import Annotated

import msgspec
from msgspec import Struct

from taciturn.service.api.problems import problem_of
from taciturn.service.core.jobs import RewardBatchResult
from taciturn.service.core.operations import AddArm, Create, DecideRequest, Reward, RewardValue


class RewardBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The reward of a decision from 0 to 1; null if none will come."""

    reward: RewardValue


class RefusedReward(Struct, frozen=True):
    """A reward of a batch that was refused: the status that it would have had on its own, and why."""

    id: int
    status: int
    detail: str


class RewardBatchAnswer(Struct, frozen=True):
    """How many rewards of a batch were taken, and those that were refused."""

    taken: int
    refused: list[RefusedReward]


decode_decide = msgspec.json.Decoder(DecideRequest).decode
decode_reward = msgspec.json.Decoder(RewardBody).decode
decode_rewards = msgspec.json.Decoder(Annotated[list[Reward], msgspec.Meta(min_length=1)]).decode
decode_create = msgspec.json.Decoder(Create).decode
decode_add_arm = msgspec.json.Decoder(AddArm).decode


def reward_batch_answer(result: RewardBatchResult) -> RewardBatchAnswer:
    """The answer to a batch of rewards."""
    problems = [(refusal.id, problem_of(refusal.error)) for refusal in result.refused]
    return RewardBatchAnswer(
        result.taken, [RefusedReward(id, problem.status, problem.detail) for id, problem in problems]
    )
