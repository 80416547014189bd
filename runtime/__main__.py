"""`python -m runtime build`, `package`, `generate`, `serve` and `web`."""

import os
import sys

import click

from exporter.command_line.interruption import interruptible
from exporter.command_line.version import version_option
from runtime.build import BUILD_DIR, PRODUCTS
from runtime.commands.build import build_command, package_command
from runtime.commands.generate import generate
from runtime.commands.results import build_and_tell
from runtime.commands.serve import serve
from runtime.commands.web import web


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
def main() -> None:
    """Build the C++ runner; run a model from Python, as a server or in the browser."""


for command in (build_command, package_command, generate, serve, web):
    main.add_command(command)


def run() -> None:
    with interruptible("Interrupted."):
        main()


def run_runner() -> None:
    """Runs the C++ runner in this process; builds it first if it is missing."""
    program = BUILD_DIR / "runner"
    if not program.is_file():
        click.echo(build_and_tell("default", PRODUCTS), err=True)
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    run()
