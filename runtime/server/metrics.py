"""What /metrics tells Prometheus."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Counts and times of a server's requests.

    Args:
        running: returns the number of requests at work or waiting.
        restarts: returns how often the model's process was started again.
    """

    def __init__(self, running: Callable[[], float], restarts: Callable[[], float]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "thimble_requests",
            "Requests by path and status.",
            ["path", "status"],
            registry=registry,
        )
        self._tokens = Counter(
            "thimble_tokens",
            "Tokens by kind: prompt, cached, generated, drafted, accepted.",
            ["kind"],
            registry=registry,
        )
        self._first = Histogram(
            "thimble_time_to_first_token_seconds",
            "From the request to the first token.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._answer = Histogram(
            "thimble_answer_seconds",
            "From the request to the last token.",
            buckets=_SECONDS,
            registry=registry,
        )
        for name, what, value in (
            ("running", "Requests at work or waiting.", running),
            ("model_restarts", "How often the model's process was started again.", restarts),
        ):
            Gauge(f"thimble_{name}", what, registry=registry).set_function(value)

    def request(self, path: str, status: int) -> None:
        """Adds a request that has ended."""
        self._requests.labels(path, status).inc()

    def answered(self, stats: dict[str, Any]) -> None:
        """Adds an answer by its statistics."""
        for kind in ("prompt", "cached", "generated", "drafted", "accepted"):
            self._tokens.labels(kind).inc(stats[f"{kind}_tokens"])
        self._first.observe(stats["ttft_s"])
        self._answer.observe(stats["ttft_s"] + stats["decode_s"])

    def text(self) -> bytes:
        return generate_latest(self._registry)
