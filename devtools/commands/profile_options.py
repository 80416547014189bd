"""The options of the commands that show recorded runs: inspect, diff and others."""

import click

from devtools.commands.requests import DiffRequest, InspectRequest
from exporter.command_line.filled import FilledPath
from exporter.command_line.request import takes

_MOST_THREADS = 256
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}

etrecord_option = click.option(
    "--etrecord",
    metavar="FILE",
    type=FilledPath(),
    required=True,
    help="The file that thimble-export --etrecord wrote with the model.",
)
limits_option = click.option(
    "--limits",
    metavar="FILE",
    type=FilledPath(),
    help="The limits of the recording machine, as written by thimble-devtools bench --json: "
    "each line then shows its limit, and how close it came.",
)
threads_option = click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(1, _MOST_THREADS),
    help="Number of threads of the run, if the profile does not contain it; selects the limits.",
)
_by = click.option(
    "--by",
    type=click.Choice(["line", "module", "op", "layer"]),
    default="line",
    help="How to group the time. The modules of all decoder layers are combined, as "
    "model.layers.*.mlp.",
)
_every_layer = click.option(
    "--every-layer",
    is_flag=True,
    help="With --by module: show the modules of each decoder layer separately.",
)
_phase = click.option(
    "--phase",
    type=click.Choice(["all", "prefill", "decode"]),
    default="all",
    help="The calls to show.",
)
_top = click.option(
    "--top",
    metavar="N",
    type=click.IntRange(0),
    default=25,
    help="Number of rows of a table: those of the largest shares, by median; 0: all.",
)


@click.command(
    context_settings=_SETTINGS, short_help="Show where a recorded run spent its time, by line."
)
@click.argument("profile", type=FilledPath())
@etrecord_option
@_by
@_every_layer
@_phase
@_top
@limits_option
@click.option(
    "--probe",
    is_flag=True,
    help="Measure the limits now instead; only valid on the machine of the recording.",
)
@threads_option
@click.option("--json", type=FilledPath(), help="Also write all views as JSON.")
@click.option("--csv", type=FilledPath(), help="Also write the view as CSV.")
@takes(InspectRequest)
def inspect(request: InspectRequest) -> None:
    """Show where a recorded run spent its time, by line of the exported Python.

    PROFILE is a file that the runner's --etdump wrote. The self time is an event's own; the total
    time includes what a line or module calls. Time that belongs to no line has separate rows, so
    that the self times of a table add up to the time of the calls.

    One operator may compute several lines or modules, such as q_proj, k_proj and v_proj. Such rows
    are marked "shares with", and the operator's time is divided among them. It is divided by the
    bytes of their weights in calls of one token, and by their operations in longer calls. If none
    is a matrix product, as in a norm, it is always divided by operations.
    """
    from devtools.commands.inspect import run_inspect

    run_inspect(request)


@click.command(
    context_settings=_SETTINGS, short_help="Show which lines became slower from run A to run B."
)
@click.argument("a", metavar="A", type=FilledPath())
@click.argument("b", metavar="B", type=FilledPath())
@etrecord_option
@click.option(
    "--etrecord-b",
    metavar="FILE",
    type=FilledPath(),
    help="The ETRecord of B, if it ran another program.",
)
@click.option(
    "--again-a",
    metavar="FILE",
    multiple=True,
    type=FilledPath(),
    help="Another run of A: differences between its runs then count as noise. Can be repeated.",
)
@click.option(
    "--again-b",
    metavar="FILE",
    multiple=True,
    type=FilledPath(),
    help="Another run of B. Can be repeated.",
)
@_by
@_every_layer
@_phase
@_top
@click.option("--json", type=FilledPath(), help="Also write everything as JSON.")
@takes(DiffRequest)
def diff(request: DiffRequest) -> None:
    """Show, by line, what became slower from run A to run B, and what is only noise.

    Times are those of the median call of each side, and every change is from A's median to B's. A
    line is slower or faster if two things hold. The difference of its calls is significant
    (Mann-Whitney, Holm, 5% for all lines together). Its medians differ by more than the noise of
    either side: between the halves of a run, and between runs of one side. The time of an operator
    that computes several lines is divided among them, as in inspect.

    One run does not show how much runs differ by themselves, so 5% is assumed. With one run on each
    side a line is only perhaps slower or faster. For a reliable verdict, record three runs or
    more of each side and add them with --again-a and --again-b.
    """
    from devtools.commands.diff import run_diff

    run_diff(request)
