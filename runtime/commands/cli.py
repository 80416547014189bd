"""The options of `python -m runtime`."""

import click

from exporter.command_line.brief import BriefGroup
from exporter.command_line.version import version_option
from runtime.commands.build import build_command, package_command
from runtime.commands.generate import generate
from runtime.commands.run import run_command
from runtime.commands.serve import serve
from runtime.commands.tokenize import tokenize
from runtime.commands.web import web


@click.group(cls=BriefGroup, context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
def main() -> None:
    """Build the C++ runner; run a model from Python, as a server or in the browser."""


for command in (
    *(build_command, package_command),
    *(run_command, generate, tokenize, serve, web),
):
    main.add_command(command)
