"""The metrics of several processes as one text: each series says which shard, or that it is the front's."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

FRONT = "front"


def merged_metrics(front: bytes, shards: Mapping[int, bytes]) -> bytes:
    """All series with a label `shard`: its number, or "front". Series of one name add up over this label."""
    registry = CollectorRegistry()
    registry.register(_Merged({FRONT: front} | {str(number): text for number, text in shards.items()}))
    return generate_latest(registry)


class _Merged(Collector):
    """The metrics of several texts."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for shard, text in self._texts.items():
            for family in text_string_to_metric_families(text.decode()):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    merged.samples.append(sample._replace(labels=sample.labels | {"shard": shard}))
        yield from families.values()
