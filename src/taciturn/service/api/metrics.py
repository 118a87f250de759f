"""Metrics for Prometheus at `/metrics`: durations of requests, the journal, and the state of each agent.

Reading them waits for nothing. What only an agent's thread can count is asked for when metrics are read, and shown from
the next time on.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from taciturn.errors import TaciturnError
from taciturn.service.api.bodies import Budget
from taciturn.service.core.jobs import Job
from taciturn.service.core.service import Service
from taciturn.service.core.worker import Worker

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

MAX_NAMED, OTHER = 50, "other"
"""Agents with metrics of their own, the first by name; those of all further ones are summed under this name."""

REFRESH = 10.0
"""Seconds after which an agent is asked again for its state."""

OUTCOMES = ("taken", "corrected", "same")
SUMMED = {
    "pending": "Decisions without feedback.",
    "rewarded": "Decisions with an observed reward that the agent holds.",
    "silent": "Silent decisions that the agent holds.",
    "memory": "Bytes in the agent's arrays.",
}
RATES = {
    "imputed_share": "Share of imputed rewards among all that are learned.",
    "reward_rate": "Mean of the observed rewards that the agent holds.",
}
UNITS = {"memory": "memory_bytes"}
"""Names of metrics that differ from the field of `Health`."""


class Metrics:
    """The metrics of a process that answers requests.

    Arguments:
        budget: of the memory for large requests; None if there is none to show.
        collectors: of what else is shown, before the requests.
    """

    def __init__(self, *, budget: Budget | None = None, collectors: Iterable[Collector] = ()) -> None:
        self._registry = CollectorRegistry()
        for collector in collectors:
            self._registry.register(collector)
        if budget is not None:
            self._registry.register(_Budget(budget))
        ProcessCollector(registry=self._registry)
        self._seconds = Histogram(
            "taciturn_request_seconds",
            "Duration of requests, until they were durable.",
            ("method", "route", "status"),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._known: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Add one answered request."""
        key = (method, route, status)
        child = self._known.get(key)
        if child is None:
            child = self._known[key] = self._seconds.labels(method, route, str(status))
        child.observe(seconds)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def service_metrics(
    service: Service, budget: Budget | None = None, journal_bytes: Callable[[], int] | None = None
) -> Metrics:
    """Metrics with those of a service of this process and of its agents.

    Arguments:
        service: its agents are counted.
        budget: of the memory for large requests.
        journal_bytes: the size of the journal; None if it is not known.
    """
    return Metrics(budget=budget, collectors=[_Service(service, journal_bytes), _Agents(service)])


class _Budget(Collector):
    """The memory for large requests."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def collect(self) -> Iterator[Metric]:
        about = "Memory for the large requests in progress."
        yield GaugeMetricFamily("taciturn_in_flight_bytes", about, value=self._budget.taken)
        yield GaugeMetricFamily("taciturn_in_flight_limit_bytes", "The limit on this memory.", value=self._budget.limit)


class _Service(Collector):
    """The service as a whole."""

    def __init__(self, service: Service, journal_bytes: Callable[[], int] | None) -> None:
        self._service, self._journal_bytes = service, journal_bytes

    def collect(self) -> Iterator[Metric]:
        service = self._service
        replayed, entries = service.progress
        values = {
            "ready": ("Whether requests are served.", float(service.ready)),
            "journal_position": ("Entries in the journal.", service.position),
            "failures": ("Failed appends and broken sessions since the last good append.", service.failures),
            "replay_entries": ("Entries that the last restoring reads.", entries),
            "replayed_entries": ("Entries that the last restoring has read.", replayed),
            "differing_decisions": (
                "Decisions of the journal that this version would have made differently.",
                service.differing,
            ),
        }
        if self._journal_bytes is not None:
            values["journal_bytes"] = ("Size of the journal on the disk.", self._journal_bytes())
        for name, (about, value) in values.items():
            yield GaugeMetricFamily(f"taciturn_{name}", about, value=value)


class _Agents(Collector):
    """The agents, the first by name one by one and the others together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._health: dict[str, _Health] = {}

    def collect(self) -> Iterator[Metric]:
        workers = sorted((worker for worker in self._service.workers() if worker.visible), key=lambda one: one.name)
        self._health = {worker.name: self._refreshed(worker) for worker in workers}
        named, others = workers[:MAX_NAMED], workers[MAX_NAMED:]
        groups = {worker.name: [worker] for worker in named} | ({OTHER: others} if others else {})
        yield GaugeMetricFamily("taciturn_agents", "Agents that are served.", value=len(workers))
        decisions = CounterMetricFamily("taciturn_decisions", "Decisions made since the start.", labels=["agent"])
        rewards = CounterMetricFamily("taciturn_rewards", "Feedback since the start.", labels=["agent", "outcome"])
        waiting = GaugeMetricFamily("taciturn_waiting", "Requests queued for an agent.", labels=["agent"])
        for name, group in groups.items():
            decisions.add_metric([name], sum(worker.counts["decisions"] for worker in group))
            waiting.add_metric([name], sum(worker.waiting for worker in group))
            for outcome in OUTCOMES:
                rewards.add_metric([name, outcome], sum(worker.counts[outcome] for worker in group))
        yield from (decisions, rewards, waiting)
        for field, about in (SUMMED | RATES).items():
            gauge = GaugeMetricFamily(f"taciturn_agent_{UNITS.get(field, field)}", about, labels=["agent"])
            for name, group in groups.items():
                self._add(gauge, name, field, group)
            yield gauge

    def _add(self, gauge: GaugeMetricFamily, name: str, field: str, group: list[Worker]) -> None:
        """Add the sum of a field over a group, or its mean where a sum means nothing; nothing before it is known."""
        found = [self._health[worker.name].values.get(field) for worker in group]
        known = [value for value in found if value is not None]
        if known:
            gauge.add_metric([name], sum(known) / (len(known) if field in RATES else 1))

    def _refreshed(self, worker: Worker) -> "_Health":
        health = self._health.get(worker.name)
        if health is None or health.worker is not worker:
            health = _Health(worker)
        health.refresh()
        return health


class _Health:
    """What an agent last said about its health."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.values: dict[str, Any] = {}
        self._asked, self._waiting = -REFRESH, False

    def refresh(self) -> None:
        """Ask the agent if its answer is old, without waiting for the new one."""
        now = time.monotonic()
        if self._waiting or now - self._asked < REFRESH:
            return
        answer: Future[dict[str, Any]] = Future()
        answer.add_done_callback(self._answered)
        self._asked, self._waiting = now, True
        try:
            self.worker.put(Job(lambda session: session.health(), answer))
        except TaciturnError:  # the queue is full, or the agent is about to end
            self._waiting = False

    def _answered(self, answer: "Future[dict[str, Any]]") -> None:
        self._waiting = False
        if answer.exception() is None:
            self.values = answer.result()
