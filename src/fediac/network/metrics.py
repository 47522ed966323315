"""A reading as Prometheus metrics."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from fediac.network.readings import Reading
from fediac.switch.counters import REASONS


def metrics_of(reading: Reading) -> tuple[str, bytes]:
    """Return the content type and the text of a reading's metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Readings(reading))
    return CONTENT_TYPE_LATEST, generate_latest(registry)


class _Readings(Collector):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; a reason has a number even before it occurs."""
        reading = self._reading
        for name, text, value in (
            ("packets_in", "Datagrams that arrived", reading.packets_in),
            ("packets_out", "Datagrams that were sent", reading.packets_out),
            ("unsent", "Datagrams that the machine refused to send", reading.unsent),
            (
                "overrun",
                "Datagrams that found the receive buffer full",
                reading.overrun,
            ),
        ):
            yield CounterMetricFamily(f"fediac_{name}", text, value=value)
        drops = CounterMetricFamily(
            "fediac_dropped", "Packets dropped, by reason", labels=["reason"]
        )
        for reason in REASONS:
            drops.add_metric([reason], reading.drops.get(reason, 0))
        yield drops
        for name, text, number in (
            (
                "uptime_seconds",
                "How long the switch has been running",
                reading.uptime_s,
            ),
            ("jobs", "Jobs with a session", reading.n_jobs),
            ("max_jobs", "Jobs that the switch takes", reading.max_jobs),
            ("members", "Members that have joined", reading.n_members),
            ("register_bytes", "Memory for all jobs", reading.register_bytes),
            ("used_register_bytes", "Of these in use", reading.used_bytes),
        ):
            yield GaugeMetricFamily(f"fediac_{name}", text, value=number)
        yield from self._jobs()

    def _jobs(self) -> Iterator[Metric]:
        labels = ["job"]
        done = CounterMetricFamily(
            "fediac_job_slots_done", "Slots completed in a job's session", labels=labels
        )
        joined = GaugeMetricFamily(
            "fediac_job_members", "Members that have joined a job", labels=labels
        )
        for job in self._reading.jobs:
            done.add_metric([job.job], job.slots_done)
            joined.add_metric([job.job], job.n_joined)
        yield done
        yield joined
