"""The C++ runner as a command of the package, `thimble-runner`."""

from collections.abc import Sequence

import click

from runtime.build import BUILD_DIR
from runtime.commands.results import become_runner
from runtime.distribution import version

_UNBUILT = """Usage: thimble-runner MODEL.pte -p TEXT [options]
       thimble-runner MODEL.pte --chat [options]

The C++ runner is not built yet. `thimble-runtime build` builds it, and so does the first run, in
minutes. After that --help lists all options."""


def run_runner(arguments: Sequence[str]) -> None:
    """Runs it in this process; builds it first if it is missing and there is work for it."""
    if not (BUILD_DIR / "runner").is_file() and _answered(list(arguments)):
        return
    become_runner(arguments)


def _answered(arguments: list[str]) -> bool:
    """Answers --help and --version where there is no runner yet."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--version" in options:
        click.echo(f"thimble {version()}; the runner is not built yet")
    elif "--help" in options or "-h" in options or not arguments:
        click.echo(_UNBUILT)
    else:
        return False
    return True
