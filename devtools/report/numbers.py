"""Numbers as the page writes them."""

from collections.abc import Callable
from typing import Any

from devtools.format_numbers import counted


def duration(nanoseconds: float) -> str:
    """Three digits and a unit: 1.23 ms."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size * 0.9995:
            return f"{_three_digits(nanoseconds / size)} {unit}"
    return f"{nanoseconds:.0f} ns"


def size(count: float) -> str:
    """Bytes, in powers of ten: 1.23 MB."""
    return _scaled(count, "B")


def rate(per_second: float) -> str:
    """Operations a second: 1.23 Gop/s."""
    return _scaled(per_second, "op/s")


def percent(share: float) -> str:
    """Tenths below 10%."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def _scaled(value: float, unit: str) -> str:
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale * 0.9995:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"


FILTERS: dict[str, Callable[..., Any]] = {
    "duration": duration,
    "size": size,
    "rate": rate,
    "percent": percent,
    "counted": counted,
}
