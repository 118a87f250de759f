"""A program in any language as an agent: it answers JSON lines on its stdin by JSON lines on its stdout."""

import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from taciturn.adapters.line_program import LineProgram
from taciturn.agents.validation import arm_names, known_id, known_ids, label_indices, reward_of
from taciturn.contracts import Arm, Context, Decision
from taciturn.errors import ProgramFailed, TaciturnError
from taciturn.features.containers import all_contexts
from taciturn.features.json_form import json_context
from taciturn.registry import command_words
from taciturn.validate import LARGEST, check_number, shown, undirected_edges

A_DAY = 86400.0


class _Answer(msgspec.Struct):
    """What a program may say; what else it says is not read."""

    ok: bool = False
    error: str | None = None
    arm: Any = None
    scores: list[float] | None = None
    propensity: float | None = None


@dataclasses.dataclass(kw_only=True, eq=False)
class Program:
    """An agent that is a program; docs/your-own.md says what it is asked and answers.

    It is started with the first decision or labelled row, and ends when this object does. Once it has broken the
    protocol, or its limits, it is ended, and every later call raises `ProgramFailed` too.

    Arguments:
        command: the program and its arguments as a shell would split them; no shell runs.
        arms: the arms by name, which are text or numbers, or how many there are.
        seed: for the program, which may draw at random.
        one_right_arm: whether a reward of 1 says that all other arms would have been wrong; the program is told.
        timeout: seconds for one answer.
    """

    command: str
    arms: Sequence[Arm] | int
    seed: int = 0
    one_right_arm: bool = True
    timeout: float = 60.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_number("timeout", self.timeout, 1e-3, A_DAY)
        self.arm_names = arm_names(self.arms)
        """The arms by name, in the order of a decision's scores."""
        self._indices: dict[Any, int] = {_said(name): k for k, name in enumerate(self.arm_names)}
        self._words = command_words(self.command)
        self._running: LineProgram | None = None
        self._next_id = 0

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that it was made with."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def warm_start(self, X0: Any, y0: Any, edges: Any = None) -> list[int]:
        """Give the program contexts whose right arm is known, and return their ids."""
        contexts = [_context(x) for x in all_contexts(X0)]
        labels, names = label_indices(y0, self._indices, len(contexts)), list(self._indices)
        ids = [self._next_id + row for row in range(len(contexts))]
        pairs = None if edges is None else [[ids[a], ids[b]] for a, b in undirected_edges(edges, len(ids)).tolist()]
        near = {} if pairs is None else {"edges": pairs}
        self._ask({"do": "warm_start", "ids": ids, "contexts": contexts, "arms": [names[k] for k in labels], **near})
        self._next_id += len(ids)
        return ids

    def decide(self, x: Context, neighbors: Sequence[int] | None = None) -> Decision:
        """Return the program's decision; its scores are zeros and its propensity is 1 where it does not say."""
        near = known_ids(neighbors, self._next_id)
        given = {} if near is None else {"neighbors": near}
        answer = self._ask({"do": "decide", "id": self._next_id, "context": _context(x), **given})
        decision = self._decision(answer)
        self._next_id += 1
        return decision

    def feedback(self, id: int, reward: float | None) -> None:
        """Tell the program what came of a decision; None is silence."""
        known, number = known_id(id, self._next_id), reward_of(reward)
        whole = None if number is None else int(number) if number in (0.0, 1.0) else number  # 1, not 1.0
        self._ask({"do": "feedback", "id": known, "reward": whole})

    def start(self) -> None:
        """Start the program and tell it the arms, if that has not been done; the first call of others does it too."""
        if self._running is None:
            self._running = LineProgram(self._words, self.timeout)
            told = {"arms": list(self._indices), "seed": self.seed, "one_right_arm": self.one_right_arm}
            self._send(self._running, {"do": "start", **told})

    def _ask(self, request: dict[str, Any]) -> _Answer:
        """Return the answer to a request, which is not an error."""
        self.start()
        return self._send(self._program, request)

    @property
    def _program(self) -> LineProgram:
        """The program, which has been started."""
        if self._running is None:
            raise ProgramFailed("the program has not been started")
        return self._running

    def _send(self, program: LineProgram, request: dict[str, Any]) -> _Answer:
        line = program.ask(msgspec.json.encode(request))
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"answered {shown(line.decode(errors='replace'))}, which is no answer ({error})"
            raise program.failed(reason) from None
        if answer.error is not None:
            raise program.failed(f"says: {' '.join(answer.error.split())[:200]}")
        if request["do"] != "decide" and not answer.ok:
            raise program.failed(f'answered {request["do"]} by {shown(line.decode())}; {{"ok":true}} is needed')
        return answer

    def _decision(self, answer: _Answer) -> Decision:
        arm, count = answer.arm, len(self.arm_names)
        if isinstance(arm, bool) or not isinstance(arm, Hashable) or arm not in self._indices:
            raise self._program.failed(f"chose the arm {shown(arm)}; it was given {shown(list(self._indices))}")
        scores = np.zeros(count) if answer.scores is None else np.array(answer.scores)
        if scores.shape != (count,) or (np.abs(scores) > LARGEST).any():
            raise self._program.failed(
                f"has the scores {shown(answer.scores)}; {count} numbers up to {LARGEST:g} are needed"
            )
        propensity = 1.0 if answer.propensity is None else answer.propensity
        if not 0.0 < propensity <= 1.0:
            raise self._program.failed(f"has the propensity {propensity:g}; more than 0 and at most 1 is needed")
        return Decision(self._next_id, self.arm_names[self._indices[arm]], scores, np.zeros(count), propensity)


def _said(name: Arm) -> Any:
    """Return the name of an arm as JSON has it."""
    plain = name.item() if isinstance(name, np.generic) else name
    if isinstance(plain, bool) or not (isinstance(plain, str | int) or (type(plain) is float and math.isfinite(plain))):
        raise TaciturnError(f"the arm {shown(name)} cannot be told to a program; text and numbers can")
    return plain


def _context(x: Any) -> Any:
    """Return a context as JSON has it: a text is one, the rest as the service takes it."""
    return x if isinstance(x, str) else json_context(x)
