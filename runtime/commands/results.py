"""What the commands have in common: how they build the C++, and how they fail."""

import sys
from typing import NoReturn

import click

from runtime.build import build
from runtime.errors import BuildError
from runtime.packaging.executorch_source import ExecutorchSource


def build_and_tell(
    preset: str, targets: tuple[str, ...], source: ExecutorchSource | None = None
) -> str:
    """Builds, and returns a line that tells what was done."""
    try:
        result = build(preset, targets, source)
    except BuildError as error:
        fail(error, 1)
    program = result.directory / ("thimble.wasm" if preset.startswith("wasm32") else "runner")
    if result.seconds == 0.0:
        return f"{program} is up to date"
    return f"built {program} in {result.seconds:.1f} s"


def fail(error: Exception, code: int) -> NoReturn:
    """Exits with 2 if the request is not possible, with 1 if the work failed."""
    click.echo(f"runtime: {error}", err=True)
    sys.exit(code)
