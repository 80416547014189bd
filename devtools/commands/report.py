"""The report command: a recorded run as one HTML page."""

from pathlib import Path

import click

from devtools.commands.failing import failing
from devtools.commands.profile_options import etrecord_option, limits_option, threads_option
from devtools.errors import BadRequest
from devtools.files import check_outputs
from devtools.format_numbers import counted
from exporter.command_line.filled import FilledPath
from exporter.errors import ExportError


@click.command(
    context_settings={"show_default": True}, short_help="Write a recorded run as one HTML page."
)
@click.argument("profile", type=FilledPath())
@etrecord_option
@click.option(
    "--out",
    metavar="FILE",
    type=FilledPath(),
    required=True,
    help="The .html page to write.",
)
@click.option(
    "--pte",
    metavar="FILE",
    type=FilledPath(),
    help="The model of the run: the page then also shows its memory, and why operators are not "
    "delegated.",
)
@click.option("--method", metavar="NAME", help="Show the calls of this method alone.")
@limits_option
@threads_option
def report(
    profile: Path,
    etrecord: Path,
    out: Path,
    pte: Path | None,
    method: str | None,
    limits: Path | None,
    threads: int | None,
) -> None:
    """Write a recorded run as one HTML file that works offline.

    It has the model's source with times, a flame graph, the roofline, prefill compared with decode,
    memory, and delegation. PROFILE is a file that the runner's --etdump wrote.
    """
    from devtools.profile import load_profile
    from devtools.profile.limits import load_limits
    from devtools.profile.load import of_method
    from devtools.report import write_report
    from devtools.report.program import read_program

    with failing():
        check_outputs((out,), (profile, etrecord, pte, limits))
        if out.suffix.lower() != ".html":
            raise BadRequest(f"{out} does not end in .html; name a .html file to write.")
        loaded = load_profile(profile, etrecord)
        if pte is not None and method is None and len(loaded.methods) > 1:
            raise BadRequest(
                f"{profile} has calls of {' and '.join(loaded.methods)}, but --pte shows the "
                "memory of one method; name it with --method."
            )
        if method is not None:
            loaded = of_method(loaded, method)
        if pte is not None:
            _check_sound(pte)
        program = read_program(pte, loaded.methods[0]) if pte is not None else None
        used = loaded.threads_or(threads)
        machine = load_limits(limits, used) if limits is not None else None
        size = write_report(loaded, out, program, machine)
    if loaded.note:
        click.echo(loaded.note, err=True)
    calls = counted(len(loaded.calls), "call")
    click.echo(f"wrote {out}: {size / 1000:.0f} kB, {calls}; {loaded.coverage.summary}")


def _check_sound(pte: Path) -> None:
    """Raises BadRequest if the program differs from what was exported; weights are not read."""
    from exporter.file.pte import is_sealed, verify

    try:
        if is_sealed(pte):
            verify(pte, everything=False)
    except ExportError as error:
        raise BadRequest(str(error)) from None
