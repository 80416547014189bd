"""How soon a busy model has a place again."""

import math

_MOST_S = 60  # longer waits are those that clients do not obey
_WEIGHT = 0.2  # of the last answer


class Pace:
    """Estimates the seconds between ends of answers, while there is work."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0

    def begun(self, now: float) -> None:
        """Work begins after a time without."""
        self._since = now

    def ended(self, now: float) -> None:
        """An answer has ended."""
        seconds, self._since = now - self._since, now
        before = self._seconds or seconds
        self._seconds = before + _WEIGHT * (seconds - before)

    def seconds_for(self, answers: int) -> int:
        """Returns the seconds in which so many answers will have ended, at least 1."""
        return max(1, min(_MOST_S, math.ceil(answers * self._seconds)))
