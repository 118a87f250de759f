"""The agents of one shard: each is restored when it is asked for, and can be given to another shard."""

from taciturn.service.core.errors import Unavailable
from taciturn.service.core.limits import Limits
from taciturn.service.core.restore import AgentJournal, AgentRestorer, Restored, SnapshotStore
from taciturn.service.core.service import Service
from taciturn.service.core.worker import Worker


class ShardService(Service):
    """A service that restores no agent by itself; for the arguments see `Service`."""

    def __init__(
        self,
        journal: AgentJournal,
        snapshots: SnapshotStore | None = None,
        *,
        limits: Limits | None = None,
        learn_budget_ms: float = 10.0,
        snapshot_every: int = 20_000,
        snapshot_seconds: float = 5.0,
    ) -> None:
        self._agents = journal
        super().__init__(
            journal,
            snapshots,
            limits=limits,
            learn_budget_ms=learn_budget_ms,
            snapshot_every=snapshot_every,
            snapshot_seconds=snapshot_seconds,
        )

    def serves(self, name: str) -> bool:
        """Whether an agent is served now, or set aside."""
        return name in self._workers or name in self.set_aside

    def adopt(self, name: str) -> None:
        """Restore an agent of this shard and serve it, if there is one; one call for a name at a time."""
        restored, failed = self._restorer.restore({name})
        with self._lock:
            if not self.ready:
                raise Unavailable(self.status)
            self.set_aside |= failed
            if name in restored and name not in self._workers:
                self._workers[name] = Worker(name, self, self._commit, restored[name])

    def release(self, name: str) -> None:
        """Process what is queued for an agent, write its snapshot, and serve it no longer."""
        self.set_aside.pop(name, None)
        worker = self._workers.get(name)
        if worker is None:
            return
        worker.stop()
        worker.join()
        worker.wait_written()
        with self._lock:
            if self._workers.get(name) is worker:
                del self._workers[name]

    def _make_restorer(self) -> AgentRestorer:
        return AgentRestorer(self._agents, self._snapshots, self._stopping.is_set)

    def _restore_at_start(self) -> tuple[dict[str, Restored], dict[str, str]]:
        return {}, {}

    def _request_snapshots(self, worker: Worker) -> None:
        """Ask for none: an old snapshot of one agent makes no other slower to restore."""
