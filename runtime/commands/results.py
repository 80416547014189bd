"""What the commands have in common: how they build the C++, and how they fail."""

import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from exporter.command_line.interruption import raise_if_interrupted, saying
from exporter.command_line.running import RunningLines
from runtime.binding.library import library
from runtime.build import BUILD_DIR, PRODUCTS, build
from runtime.errors import BuildError
from runtime.executorch_package import show_programs_executorch
from runtime.packaging.executorch_source import ExecutorchSource


def build_and_tell(
    preset: str,
    targets: tuple[str, ...],
    source: ExecutorchSource | None = None,
    told: str = "runner",
) -> str:
    """Builds, with a line of progress every ten seconds, and returns one that tells what was
    done.

    Args:
        told: the file that the line names, of those that are built.
    """
    said = saying("Interrupted; the next command continues the build.")
    with said, RunningLines(lambda line: click.echo(line, err=True)) as lines:
        lines.begin("Building the C++")
        try:
            result = build(preset, targets, source, lines.progress)
        except BuildError as error:
            fail(error, 1)
    program = result.directory / ("thimble.wasm" if preset.startswith("wasm32") else told)
    if result.seconds == 0.0:
        return f"{program} is up to date"
    return f"built {program} in {result.seconds:.1f} s"


def build_if_missing(product: str) -> None:
    """Builds what commands need before their first use, and says so.

    Args:
        product: a file in the directory of builds, such as "runner".
    """
    if (BUILD_DIR / product).is_file():
        return
    click.echo("The C++ runner is not built yet: building it once, which takes minutes.", err=True)
    click.echo(build_and_tell("default", PRODUCTS), err=True)


def runner_program() -> Path:
    """Returns the C++ runner; builds it first if it is missing."""
    build_if_missing("runner")
    try:
        show_programs_executorch()
    except BuildError as error:
        fail(error, 1)
    return BUILD_DIR / "runner"


def become_runner(arguments: Sequence[str]) -> NoReturn:
    """Runs the C++ runner in this process."""
    program = runner_program()
    sys.stdout.flush()
    raise_if_interrupted()  # no other handler will know of it
    os.execv(program, ["thimble-runner", *arguments])


def tell_sampling(sampling: Mapping[str, float], given: Collection[str] = ()) -> None:
    """Tells which options of an answer the file chooses, where they were not given."""
    told = ", ".join(f"{name} {value:g}" for name, value in sampling.items() if name not in given)
    if told:
        click.echo(f"sampling as the model's authors set it: {told}", err=True)


def tell_of_no_effect(sampling: Mapping[str, float], given: Mapping[str, Any]) -> None:
    """Tells which given options have no effect, and why."""
    used = {**sampling, **given}
    is_greedy = not (used.get("temperature") or used.get("dynatemp_range"))
    rows = json.loads(library().thimble_answer_numbers())
    needs = {"seed": "temperature", **{row["name"]: row["needs"] for row in rows}}
    idle: dict[str, list[str]] = {}  # by what they need
    for name, needed in needs.items():
        lacks = is_greedy if needed == "temperature" else needed and not used.get(needed)
        if lacks and name in given:
            idle.setdefault(needed, []).append(_option_name(name))
    for needed, names in idle.items():
        why = f"{_option_name(needed)} is 0"
        if needed == "temperature":
            why = "at temperature 0 the most likely token is taken"
        click.echo(f"{why}, without effect of {', '.join(names)}", err=True)


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def fail(error: Exception, code: int) -> NoReturn:
    """Exits with 2 if the request is not possible, with 1 if the work failed."""
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)
