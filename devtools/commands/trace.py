"""The trace command: a recorded run for Perfetto and chrome://tracing."""

from pathlib import Path

import click

from devtools.commands.failing import failing
from devtools.commands.profile_options import etrecord_option
from devtools.errors import BadRequest
from devtools.files import check_outputs
from devtools.format_numbers import counted
from exporter.command_line.filled import FilledPath


@click.command(short_help="Write a recorded run for Perfetto or chrome://tracing.")
@click.argument("profile", type=FilledPath())
@etrecord_option
@click.option(
    "--out",
    metavar="FILE",
    type=FilledPath(),
    required=True,
    help="The .json trace to write.",
)
def trace(profile: Path, etrecord: Path, out: Path) -> None:
    """Write a recorded run as a trace to open in https://ui.perfetto.dev or chrome://tracing.

    PROFILE is a file that the runner's --etdump wrote. Each thread has a track, the operators of a
    delegate are nested in its calls, and arrows connect tokens. A click on an operator shows its
    line, shape, bytes and operations.
    """
    from devtools.profile import load_profile
    from devtools.trace import write_trace

    with failing():
        check_outputs((out,), (profile, etrecord))
        if out.suffix.lower() != ".json":
            raise BadRequest(f"{out} does not end in .json; name a .json file to write.")
        loaded = load_profile(profile, etrecord)
        count = write_trace(loaded, out)
    if loaded.note:
        click.echo(loaded.note, err=True)
    held = f"{counted(count, 'event')} of {counted(len(loaded.calls), 'call')}"
    click.echo(f"wrote {out}: {held}; {loaded.coverage.summary}")
