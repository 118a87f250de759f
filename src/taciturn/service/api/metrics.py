"""Metrics for Prometheus at `/metrics`: durations of requests, and counts of each agent."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from taciturn.service.core.service import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one service."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Agents(service))
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


class _Agents(Collector):
    """Reads the counts of the workers when metrics are collected."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service = self._service
        yield GaugeMetricFamily("taciturn_ready", "Whether requests are served.", value=float(service.ready))
        yield GaugeMetricFamily("taciturn_journal_position", "Entries in the journal.", value=service.position)
        yield GaugeMetricFamily(
            "taciturn_failures",
            "Failed appends and broken sessions since the last good append.",
            value=service.failures,
        )
        decisions = CounterMetricFamily("taciturn_decisions", "Decisions made since the start.", labels=["agent"])
        rewards = CounterMetricFamily("taciturn_rewards", "Feedback since the start.", labels=["agent", "outcome"])
        waiting = GaugeMetricFamily("taciturn_waiting", "Requests queued for an agent.", labels=["agent"])
        for worker in service.workers():
            if worker.visible:
                decisions.add_metric([worker.name], worker.counts["decisions"])
                waiting.add_metric([worker.name], worker.waiting)
                for outcome in ("taken", "corrected", "same"):
                    rewards.add_metric([worker.name, outcome], worker.counts[outcome])
        yield from (decisions, rewards, waiting)
