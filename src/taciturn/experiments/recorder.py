"""Results on disk: one line per run in ``runs.jsonl``, and the steps of each run in ``traces/``."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from taciturn.contracts import Trace
from taciturn.errors import TaciturnError
from taciturn.measures import Measure, measure_of
from taciturn.system import atomic_write, flush

RUNS, TRACES, COMMANDS = "runs.jsonl", "traces", "commands.txt"


class Setting(NamedTuple):
    """A kind and a number, written ``kind:number``: ``mcar:0.5`` or ``geometric:20.0``."""

    kind: str
    value: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` wrote."""
        kind, _, value = text.partition(":")
        return cls(kind, float(value))

    def __str__(self) -> str:
        """Return the one spelling of this setting, so that equal runs have equal ids."""
        return f"{self.kind}:{self.value!r}"


NO_DRIFT = str(Setting("none", 0.0))


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run: its inputs, its result, and the versions that it ran on.

    `scaling` is that of the data's rows; the agent's own is in `params`. `constant_arm` is the arm that is right most
    often on this stream, and `constant_accuracy` the share of steps at which it is right. `accuracy` is None where the
    run failed; `error` then holds one line and `details` the traceback. `cut_short` says that `steps` left out a part
    of the stream.

    Where every arm has a reward, `mean_reward` and `regret` are the run's, `constant_reward` the mean reward of the
    constant arm, which is the one where that is highest, and `cost_weight` says how much costs counted. Where one arm
    is right, the first three are None.

    `drift` says what changed on the way and after which share of the rounds, and `restart` after which share the agent
    was restarted, None where it was not.
    """

    id: str
    dataset: str
    source: str
    fingerprint: str
    scaling: str
    method: str
    preset: str | None
    params: dict[str, Any]
    missing: str
    delay: str
    seed: int
    accuracy: float | None
    constant_arm: str
    constant_accuracy: float
    steps: int
    seconds: float
    peak_memory_mb: float | None
    versions: dict[str, str]
    cut_short: bool = False
    error: str | None = None
    details: str | None = None
    mean_reward: float | None = None
    regret: float | None = None
    constant_reward: float | None = None
    cost_weight: float = 0.0
    drift: str = NO_DRIFT
    restart: float | None = None

    @property
    def max_nodes(self) -> int | None:
        """How many contexts the agent held at most; None where that was not bounded."""
        bound: int | None = self.params.get("max_nodes")
        return bound

    @property
    def setting_key(self) -> tuple[str, str, str, float | None, int | None]:
        """What results on the same data must share to be compared: missing, delay, drift, restart and max_nodes."""
        return self.missing, self.delay, self.drift, self.restart, self.max_nodes

    @property
    def data_key(self) -> tuple[str, float, str]:
        """What results must share to be compared: the data, how much costs counted, and the measure."""
        return self.fingerprint, self.cost_weight, self.measure.name

    @property
    def measure(self) -> Measure:
        """What runs on this data are compared by."""
        return measure_of(graded=self.mean_reward is not None)

    @property
    def result(self) -> float | None:
        """The mean reward where every arm has a reward, otherwise the accuracy; None where the run failed."""
        return self.accuracy if self.mean_reward is None else self.mean_reward

    @property
    def missing_setting(self) -> Setting:
        """The mechanism and the rate of missing rewards."""
        return Setting.parse(self.missing)

    @property
    def delay_setting(self) -> Setting:
        """The distribution and the mean of delays."""
        return Setting.parse(self.delay)

    @property
    def drift_setting(self) -> Setting:
        """What drifted, and the share of the rounds before it."""
        return Setting.parse(self.drift)


def run_id(**determinants: Any) -> str:
    """Return a hash of everything that determines a run: equal for equal runs, different for any other."""
    canonical = msgspec.json.encode(determinants, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:16]


class Recorder:
    """The only writer of a results folder. A trace is written before its line, so a run with a line is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / RUNS
        self._traces = folder / TRACES
        try:
            self._traces.mkdir(parents=True, exist_ok=True)
            self._repair()
        except OSError as error:
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> TaciturnError:
        return TaciturnError(f"cannot write results to {self.folder}: {error.strerror or error}")

    def _repair(self) -> None:
        """Truncate a last line that a crash left unfinished."""
        if self._file.exists():
            with self._file.open("rb+") as file:
                file.truncate(len(_finished_lines(file.read())))

    def note_command(self, command: str) -> None:
        """Add a command to ``commands.txt``, once, for the report."""
        if command not in read_commands(self.folder):
            with (self.folder / COMMANDS).open("a", encoding="utf-8") as file:
                file.write(command + "\n")

    def remove(self, ids: Collection[str]) -> None:
        """Remove the records of some runs and keep all others."""
        kept = [record for record in read_runs(self.folder) if record.id not in ids]
        atomic_write(self._file, b"".join(msgspec.json.encode(record) + b"\n" for record in kept))

    def add(self, record: RunRecord, trace: Trace | None) -> None:
        """Write a run, its trace before its line, and flush both to disk."""
        try:
            if trace is not None:
                atomic_write(self._traces / f"{record.id}.npz", lambda path: _write_trace(path, trace))
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")
            flush(self._file)
        except OSError as error:
            raise self._cannot_write(error) from None


def _write_trace(path: Path, trace: Trace) -> None:
    more: dict[str, Any] = {"earned": trace.earned, "best_earned": trace.best_earned} if trace.graded else {}
    if trace.drift_step is not None:
        more["drift_step"] = np.array(trace.drift_step)
    with path.open("wb") as file:  # given a path, numpy would append .npz to it
        np.savez_compressed(
            file,
            arm_names=np.array([str(name) for name in trace.arm_names]),
            choices=trace.choices,
            rewards=trace.rewards,
            correct=trace.correct,
            step_seconds=trace.step_seconds,
            **more,
        )


def read_commands(folder: Path) -> list[str]:
    """Return the commands that produced the results."""
    file = folder / COMMANDS
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def read_runs(folder: Path) -> Iterator[RunRecord]:
    """Yield the records of a results folder in the order in which the runs finished; one without any yields none.

    A run that failed and was repeated has one record for each attempt. A last line without a line break is not yet,
    or never was, completely written, and is left out.
    """
    file = folder / RUNS
    if not file.exists():
        return
    for number, line in enumerate(_finished_lines(file.read_bytes()).splitlines(), start=1):
        try:
            yield msgspec.json.decode(line, type=RunRecord)
        except msgspec.MsgspecError as error:
            raise TaciturnError(f"{file}: line {number} is not a run of this version of taciturn ({error})") from None


def latest_runs(folder: Path) -> list[RunRecord]:
    """Return the last record of each run."""
    return list({record.id: record for record in read_runs(folder)}.values())


def _finished_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def read_correct(folder: Path, id: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return whether each step of a run was right (T,)."""
    with np.load(folder / TRACES / f"{id}.npz", allow_pickle=False) as arrays:
        return np.asarray(arrays["correct"])


def read_earned(folder: Path, id: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return what each step of a run earned (T,): the reward of its arm, 1 or 0 where one arm is right."""
    with np.load(folder / TRACES / f"{id}.npz", allow_pickle=False) as arrays:
        return np.asarray(arrays["earned" if "earned" in arrays else "correct"], np.float64)
