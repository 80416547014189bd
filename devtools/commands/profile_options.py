"""The options of the commands that show recorded runs: those of inspect and diff, and what others
have of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from devtools.profile.rows import View

_MOST_THREADS = 256
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}

etrecord_option = click.option(
    "--etrecord",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="What python -m exporter --etrecord wrote beside the model that ran.",
)
limits_option = click.option(
    "--limits",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What the recording machine can do, as python -m devtools bench --json wrote it: each "
    "line then says what bounds it, and how near it came.",
)
threads_option = click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(1, _MOST_THREADS),
    help="Threads that ran, where the profile does not tell; chooses among the limits.",
)
_by = click.option(
    "--by",
    type=click.Choice(["line", "module", "op", "layer"]),
    default="line",
    help="What time is summed up by. Modules of all decoder layers are taken together, as "
    "model.layers.*.mlp.",
)
_every_layer = click.option(
    "--every-layer", is_flag=True, help="With --by module: each decoder layer's modules apart."
)
_phase = click.option(
    "--phase",
    type=click.Choice(["all", "prefill", "decode"]),
    default="all",
    help="The calls that are looked at.",
)
_top = click.option(
    "--top", metavar="N", type=click.IntRange(0), default=25, help="Rows of a table; 0: all."
)


@click.command(context_settings=_SETTINGS)
@click.argument("profile", type=click.Path(path_type=Path))
@etrecord_option
@_by
@_every_layer
@_phase
@_top
@limits_option
@click.option(
    "--probe", is_flag=True, help="Measure that here, on the machine that recorded, instead."
)
@threads_option
@click.option("--json", type=click.Path(path_type=Path), help="Also write all views as JSON.")
@click.option("--csv", type=click.Path(path_type=Path), help="Also write the view as CSV.")
def inspect(
    profile: Path,
    etrecord: Path,
    by: str,
    every_layer: bool,
    phase: str,
    top: int,
    limits: Path | None,
    probe: bool,
    threads: int | None,
    json: Path | None,
    csv: Path | None,
) -> None:
    """Shows where a recorded run spent its time, down to the line of Python that was exported.

    PROFILE is what the runner's --etdump wrote. Time is an event's own (self) or also what a line
    or module calls (total); what belongs to no line has rows of its own, so that the self times of
    a table add up to the time of the calls.

    One operator may compute several lines or modules, as q_proj, k_proj and v_proj. Such rows say
    "shares with", and the operator's time is divided among them: by the bytes of their weights in
    calls of one token, by their operations in longer ones, and where none is a matrix product, as
    in a norm, always by operations.
    """
    from devtools.commands.inspect import Request, run_inspect
    from devtools.profile.model import Phase

    phases = tuple(Phase) if phase == "all" else (Phase(phase),)
    view = _view(by, every_layer)
    run_inspect(Request(profile, etrecord, view, phases, top, limits, probe, threads, json, csv))


@click.command(context_settings=_SETTINGS)
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@etrecord_option
@click.option(
    "--etrecord-b",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="That of B, where it ran another program.",
)
@click.option(
    "--again-a",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Another run of A: noise between runs then counts as noise. May be given repeatedly.",
)
@click.option(
    "--again-b",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Another run of B.",
)
@_by
@_every_layer
@_phase
@_top
@click.option("--json", type=click.Path(path_type=Path), help="Also write everything as JSON.")
def diff(
    a: Path,
    b: Path,
    etrecord: Path,
    etrecord_b: Path | None,
    again_a: tuple[Path, ...],
    again_b: tuple[Path, ...],
    by: str,
    every_layer: bool,
    phase: str,
    top: int,
    json: Path | None,
) -> None:
    """Shows what became slower from run A to run B, by line, and what is only noise.

    Times are those of the median call of each side, and every change is from A's median to B's. A
    line is called slower or faster if its calls differ beyond chance (Mann-Whitney, Holm, 5% for
    all lines together) and the medians by more than either side's moved by itself: from the first
    half of a run to the second, and between runs of one side. What one operator computes for
    several lines is divided among them, as inspect says.
    """
    from devtools.commands.diff import Request, run_diff
    from devtools.profile.model import Phase

    phases = tuple(Phase) if phase == "all" else (Phase(phase),)
    run_diff(
        Request(
            (a, *again_a),
            (b, *again_b),
            etrecord,
            etrecord_b or etrecord,
            _view(by, every_layer),
            phases,
            top,
            json,
        )
    )


def _view(by: str, every_layer: bool) -> "View":
    from devtools.profile.rows import View

    if not every_layer:
        return View(by)
    if by != "module":
        raise click.UsageError(f"--every-layer has no effect on --by {by}; use --by module.")
    return View.EACH_MODULE
