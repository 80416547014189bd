"""Standard output that nobody reads, or that was closed, ends no work.

A table may go to `head -1`, which leaves after a line, sooner or later than the rest is written. So
what comes after is dropped, and a command ends with the code that its own work earned: the files
that it was asked for are there.
"""

import io
import os
import sys


def outlive_reader() -> None:
    """From now on standard output drops what its reader does not wait for, and both standard
    streams what has no place to go because they were closed."""
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            # Else the next file that is opened gets the number, and what was said.
            place = os.open(os.devnull, os.O_RDWR)
            if place != number:
                os.dup2(place, number)
                os.close(place)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(1, "w", closefd=False)),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.isatty(),
    )


class _Output(io.FileIO):
    def write(self, data: bytes) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            place = os.open(os.devnull, os.O_WRONLY)
            os.dup2(place, self.fileno())
            os.close(place)
            return super().write(data)
