"""Results on disk: a line a run in ``runs.jsonl``, and what happened at each step in ``traces/``."""

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from taciturn.contracts import Trace
from taciturn.errors import TaciturnError


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run: what determined it, what came out, and on what."""

    id: str
    dataset: str
    source: str
    fingerprint: str
    method: str
    preset: str | None
    params: dict[str, Any]
    missing: str
    delay: str
    seed: int
    accuracy: float | None  # None where the run failed
    constant_arm: str  # the arm that is right most often on this stream, and how often
    constant_accuracy: float
    steps: int
    seconds: float
    peak_memory_mb: float | None
    versions: dict[str, str]
    cut_short: bool = False  # the stream had more rounds than were asked for
    error: str | None = None
    details: str | None = None  # the traceback of an error


def run_id(**determinants: Any) -> str:
    """The hash of what determines a run: equal runs have equal ids, and any change makes another."""
    canonical = msgspec.json.encode(determinants, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:16]


class Recorder:
    """The one writer of a results folder. A run is there when its line is: its trace is written before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "runs.jsonl"
        self._traces = folder / "traces"
        try:
            self._traces.mkdir(parents=True, exist_ok=True)
            self._repair()
        except OSError as error:
            raise TaciturnError(f"cannot write results to {folder}: {error.strerror or error}") from None

    def _repair(self) -> None:
        """Cut off a last line that a crash left unfinished."""
        if not self._file.exists():
            return
        with self._file.open("rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)

    def note_command(self, command: str) -> None:
        """Keep the command that results came from, once, for the report."""
        if command not in read_commands(self.folder):
            with (self.folder / "commands.txt").open("a", encoding="utf-8") as file:
                file.write(command + "\n")

    def forget(self, ids: Collection[str]) -> None:
        """Take runs out again; what else the folder holds stays."""
        kept = [record for record in read_runs(self.folder) if record.id not in ids]
        scratch = self._file.with_suffix(".tmp")
        with scratch.open("wb") as file:
            file.writelines(msgspec.json.encode(record) + b"\n" for record in kept)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self._file)

    def add(self, record: RunRecord, trace: Trace | None) -> None:
        """Write a run: its trace, then its line, both flushed to the disk."""
        try:
            if trace is not None:
                self._add_trace(record, trace)
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise TaciturnError(f"cannot write results to {self.folder}: {error.strerror or error}") from None

    def _add_trace(self, record: RunRecord, trace: Trace) -> None:
        """Under a temporary name, then moved."""
        target = self._traces / f"{record.id}.npz"
        scratch = target.with_suffix(".tmp")
        arm_names = np.array([str(name) for name in trace.arm_names])
        with scratch.open("wb") as file:
            np.savez_compressed(
                file,
                arm_names=arm_names,
                choices=trace.choices,
                rewards=trace.rewards,
                correct=trace.correct,
                step_seconds=trace.step_seconds,
            )
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)


def read_commands(folder: Path) -> list[str]:
    """The commands that results came from."""
    file = folder / "commands.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def read_runs(folder: Path) -> Iterator[RunRecord]:
    """The runs of a results folder, in the order in which they finished."""
    file = folder / "runs.jsonl"
    if not file.exists():
        return
    for number, line in enumerate(file.read_bytes().splitlines(), start=1):
        try:
            yield msgspec.json.decode(line, type=RunRecord)
        except msgspec.MsgspecError as error:
            raise TaciturnError(f"{file}: line {number} is not a run of this version of taciturn ({error})") from None


def read_correct(folder: Path, id: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which steps of a run were right (T,)."""
    with np.load(folder / "traces" / f"{id}.npz", allow_pickle=False) as arrays:
        return np.asarray(arrays["correct"])
