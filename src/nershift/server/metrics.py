"""Counters that Prometheus reads at `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """A registry of its own, so that several servers may live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self._requests = Counter("nershift_requests", "Answers.", ["route", "status"], registry=r)
        self._seconds = Histogram("nershift_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=r)
        self._batches = Histogram("nershift_batch_requests", "Requests tagged together.", buckets=_SIZES, registry=r)
        self._adaptations = Counter("nershift_adaptations", "Ended adaptations.", ["state"], registry=r)
        self._queue = Gauge("nershift_queue", "Requests that wait to be tagged.", registry=r)
        self._versions = Gauge("nershift_versions", "Versions on disk.", registry=r)

    def watch(self, queue: Callable[[], int], versions: Callable[[], int]) -> None:
        """Where the gauges look when they are asked."""
        self._queue.set_function(queue)
        self._versions.set_function(versions)

    def answered(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, requests: int) -> None:
        self._batches.observe(requests)

    def adapted(self, state: str) -> None:
        self._adaptations.labels(state).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)
