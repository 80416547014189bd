"""`python -m runtime build`, `package`, `run`, `generate`, `tokenize`, `serve` and `web`."""

import sys

import click

from exporter.command_line.brief import BriefGroup
from exporter.command_line.interruption import interruptible
from exporter.command_line.version import version_option
from runtime.build import BUILD_DIR
from runtime.commands.build import build_command, package_command
from runtime.commands.generate import generate
from runtime.commands.results import become_runner
from runtime.commands.run import run_command
from runtime.commands.serve import serve
from runtime.commands.tokenize import tokenize
from runtime.commands.web import web
from runtime.distribution import version


@click.group(cls=BriefGroup, context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
def main() -> None:
    """Build the C++ runner; run a model from Python, as a server or in the browser."""


for command in (
    *(build_command, package_command),
    *(run_command, generate, tokenize, serve, web),
):
    main.add_command(command)


def run() -> None:
    with interruptible("Interrupted."):
        main()


def run_model() -> None:
    """Exports a model if needed, and runs it in this process."""
    with interruptible("Interrupted."):
        run_command(prog_name="thimble-run")


def run_runner() -> None:
    """Runs the C++ runner in this process; builds it first if it is missing."""
    program, arguments = BUILD_DIR / "runner", sys.argv[1:]
    with interruptible("Interrupted; the next command continues the build."):
        if not program.is_file() and _answered(arguments):
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


_UNBUILT = """Usage: thimble-runner MODEL.pte -p TEXT [options]
       thimble-runner MODEL.pte --chat [options]

The C++ runner is not built yet. `thimble-runtime build` builds it, and so does the first run, in
minutes. After that --help lists all options."""


if __name__ == "__main__":
    run()
