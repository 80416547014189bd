"""What a command prints of the file that it wrote."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.command_line.interruption import say_from_now
from exporter.command_line.streams import drop_standard_output, lost

if TYPE_CHECKING:
    from delegates.report import Leftover

_LONG = 120  # characters of an explanation


def summarize(out: Path, show: Callable[[], None]) -> None:
    """Prints the summary; if standard output cannot take it, the file stays, a line says so, and
    the command ends as `interruptible` says."""
    say_from_now(f"Interrupted; {out} was written.")
    try:
        show()
    except OSError as error:
        lost.append(error)
        drop_standard_output()
        click.echo(f"{out} was written; the summary could not be printed.", err=True)


def show_kernels(lines: "Iterable[Leftover]") -> None:
    """Prints the operators that no delegate runs, by source line. A long explanation is said once,
    such as all that a delegate computes."""
    said: set[str] = set()
    for left in lines:
        times = f"{left.count} x " if left.count > 1 else ""
        parts = left.reason.split("; ")
        reason = "; ".join(part for part in parts if part not in said)
        said.update(part for part in parts if len(part) > _LONG)
        click.echo(f"  kernels: {times}{left.operator} at {left.line}: {reason}")


def show_unchecked(users: Collection[str]) -> None:
    """Says why the file's results were not compared with the model's."""
    advice = ": thimble-runtime build makes what runs cpu" if "cpu" in users else ""
    click.echo(f"checked: no; this machine has nothing that runs {' and '.join(users)}{advice}")


def megabytes(size: int) -> str:
    """Such as "4.2 MB", "0.9 kB"."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
