"""What /metrics tells Prometheus."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from runtime.server.shelf import Place, Shelf

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Counts and times of a server's requests, and the state of its models."""

    def __init__(self, shelf: Shelf) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "thimble_requests",
            "Requests by path, status and model, if they have one.",
            ["path", "status", "model"],
            registry=registry,
        )
        self._tokens = Counter(
            "thimble_tokens",
            "Tokens by kind: prompt, cached, generated, drafted, accepted.",
            ["kind", "model"],
            registry=registry,
        )
        self._first = Histogram(
            "thimble_time_to_first_token_seconds",
            "From the request to the first token.",
            ["model"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._answer = Histogram(
            "thimble_answer_seconds",
            "From the request to the last token.",
            ["model"],
            buckets=_SECONDS,
            registry=registry,
        )
        registry.register(_Places(shelf))

    def request(self, path: str, status: int, model: str) -> None:
        """Adds a request that has ended."""
        self._requests.labels(path, status, model).inc()

    def answered(self, model: str, stats: dict[str, Any]) -> None:
        """Adds an answer by its statistics."""
        for kind in ("prompt", "cached", "generated", "drafted", "accepted"):
            self._tokens.labels(kind, model).inc(stats[f"{kind}_tokens"])
        self._first.labels(model).observe(stats["ttft_s"])
        self._answer.labels(model).observe(stats["ttft_s"] + stats["decode_s"])

    def text(self) -> bytes:
        return generate_latest(self._registry)


_Family = CounterMetricFamily | GaugeMetricFamily
_OF_PLACES: tuple[tuple[type[_Family], str, str, Callable[[Place], float]], ...] = (
    (GaugeMetricFamily, "running", "Requests at work or waiting.", lambda place: place.running),
    (
        GaugeMetricFamily,
        "model_restarts",
        "How often a model's process was started again.",
        lambda place: place.restarts,
    ),
    (
        GaugeMetricFamily,
        "model_loaded",
        "Whether a model is loaded: 1 or 0.",
        lambda place: place.model is not None,
    ),
    (CounterMetricFamily, "model_loads", "Loads of a model.", lambda place: place.loads),
    (CounterMetricFamily, "model_unloads", "Unloads of a model.", lambda place: place.unloads),
)


class _Places(Collector):
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def collect(self) -> Iterator[_Family]:
        for family, name, what, value in _OF_PLACES:
            found = family(f"thimble_{name}", what, labels=["model"])
            for place in self._shelf.places:
                found.add_metric([place.served.name], float(value(place)))
            yield found
