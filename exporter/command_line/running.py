"""Progress lines of a long stage, for a log file."""

import threading
import time
from collections.abc import Callable

BETWEEN_LINES = 10.0  # least seconds between two lines
_LOOK = 1.0

Clock = Callable[[], float]  # seconds from an arbitrary start


class RunningLines:
    """Prints every ten seconds what runs, its progress, and how long it has run.

    Within its block a thread keeps the time, so that a stage without reports is shown too.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._lock = threading.Lock()
        self._stage: str | None = None
        self._since = self._last = 0.0
        self._far = "still running"
        self._ends: float | None = None  # when the stage is expected to
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep_time, daemon=True)

    def __enter__(self) -> "RunningLines":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def begin(self, stage: str) -> None:
        """Begins a stage and ends the one before it."""
        with self._lock:
            self._stage, self._far, self._ends = stage, "still running", None
            self._since = self._last = self._clock()

    def end(self) -> None:
        """Ends the stage; nothing runs until the next one begins."""
        with self._lock:
            self._stage = None

    def progress(self, done: float, total: float, seconds_left: float | None = None) -> None:
        """Records how much of the stage is done."""
        with self._lock:
            self._far = f"{int(100 * done / total)}%" if total else "still running"
            self._ends = self._clock() + seconds_left if seconds_left else None
        self.tick()

    def tick(self) -> None:
        """Prints a line if it is time for one."""
        with self._lock:
            now = self._clock()
            if self._stage is None or now - self._last < BETWEEN_LINES:
                return
            self._last = now
            left = 0.0 if self._ends is None else self._ends - now
            shown = f", {duration(left)} left" if left > 0 else ""
            self._say(f"{self._stage}: {self._far}, {duration(now - self._since)}{shown}")

    def _keep_time(self) -> None:
        while not self._stopped.wait(_LOOK):
            self.tick()


def duration(seconds: float) -> str:
    """Returns a text such as "3 min 10 s" or "4.2 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"
