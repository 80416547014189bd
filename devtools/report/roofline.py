"""The roofline (Williams, Waterman and Patterson, 2009): the rate that each line reached, and the
rate that the machine allows for its number of operations per byte."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from devtools.profile.limits import Limits
from devtools.report.totals import Place, Scope, place_of, total_by, work_ns

_MOST_POINTS = 40


@dataclass(frozen=True)
class Point:
    """A line in one phase.

    Attributes:
        intensity: operations a byte.
        rate: operations a second.
        share: of the phase's wall time.
        x, y: where it lies, in hundredths of the plot's width and height, from the lower left.
    """

    place: Place
    scope: str
    intensity: float
    rate: float
    share: float
    x: float
    y: float


@dataclass(frozen=True)
class Tick:
    """A power of ten, and where it lies, in hundredths."""

    label: str
    at: float


@dataclass(frozen=True)
class Roofline:
    """
    Attributes:
        allowed: operations a second that the machine allows each point; empty without a machine.
        roof: corners of the roof's outline, (x, y) as of a point; empty without a machine.
        uncounted: for each scope, the share of its wall time in events whose operations or bytes
            are unknown or zero.
    """

    points: tuple[Point, ...]
    allowed: tuple[float, ...]
    roof: tuple[tuple[float, float], ...]
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]
    uncounted: tuple[tuple[str, float], ...]


def roofline(scopes: Sequence[Scope], limits: Limits | None) -> Roofline | None:
    """Points for the lines of each phase that do arithmetic; None if no event reports any.

    Args:
        limits: of the machine; the roof needs both of them.
    """
    points, uncounted = _measured(scopes)
    if not points:
        return None
    points.sort(key=lambda item: -item.share)
    xs = [item.intensity for item in points]
    ys = [item.rate for item in points]
    known = limits is not None and limits.bytes_per_s and limits.operations_per_s
    speed, peak = (limits.bytes_per_s or 0.0, limits.operations_per_s or 0.0) if limits else (0, 0)
    if known:
        xs += [peak / speed / 10, peak / speed * 10]
        ys.append(peak * 1.5)
    across, up = _Axis(xs), _Axis(ys)
    corners: list[tuple[float, float]] = []
    if known:
        for value in (max(across.low, up.low / speed), peak / speed, across.high):
            corners.append((across.at(value), up.at(min(peak, value * speed))))
    return Roofline(
        points=tuple(
            Point(
                item.place,
                item.scope,
                item.intensity,
                item.rate,
                item.share,
                across.at(item.intensity),
                up.at(item.rate),
            )
            for item in points
        ),
        allowed=tuple(min(peak, item.intensity * speed) for item in points) if known else (),
        roof=tuple(corners),
        ticks_x=across.ticks(""),
        ticks_y=up.ticks("op/s"),
        uncounted=tuple(uncounted),
    )


@dataclass(frozen=True)
class _Measured:
    place: Place
    scope: str
    intensity: float
    rate: float
    share: float


def _measured(scopes: Sequence[Scope]) -> tuple[list[_Measured], list[tuple[str, float]]]:
    """What each phase's lines reached, and the share of each phase's time outside of them."""
    points, uncounted = [], []
    for scope in (scope for scope in scopes if scope.name != "all" or len(scopes) == 1):
        totals = total_by(scope.calls, place_of)
        counted = [
            (place, total)
            for place, total in totals.items()
            if total.work.operations and total.work.bytes_moved and work_ns(total, scope)
        ]
        rest = sum(total.time_ns for total in totals.values())
        rest -= sum(total.work.time_ns for _, total in counted)
        uncounted.append((scope.name, scope.share(rest)))
        for place, total in counted[:_MOST_POINTS]:
            intensity = total.work.operations / total.work.bytes_moved
            rate = total.work.operations / work_ns(total, scope) * 1e9
            share = scope.share(total.work.time_ns)
            points.append(_Measured(place, scope.name, intensity, rate, share))
    return points, uncounted


class _Axis:
    """A logarithmic axis from a power of ten below all values to one above."""

    def __init__(self, values: Sequence[float]) -> None:
        self._low = floor(log10(min(values)))
        self._high = max(ceil(log10(max(values))), self._low + 1)

    @property
    def low(self) -> float:
        return 10.0**self._low

    @property
    def high(self) -> float:
        return 10.0**self._high

    def at(self, value: float) -> float:
        return 100 * (log10(value) - self._low) / (self._high - self._low)

    def ticks(self, unit: str) -> tuple[Tick, ...]:
        powers = range(self._low, self._high + 1)
        return tuple(Tick(_power(power, unit), self.at(10.0**power)) for power in powers)


def _power(power: int, unit: str) -> str:
    """Such as 10 Gop/s."""
    if not unit:
        return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"
    group = min(max(power // 3, 0), 4)
    return f"{10 ** (power - 3 * group):g} {('', 'k', 'M', 'G', 'T')[group]}{unit}"
