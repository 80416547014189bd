"""The option --version: the versions of the package and of the libraries that affect its
results."""

import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

import click

_LIBRARIES = ("torch", "torchao", "executorch")


def version_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns an option for a command or a group, which prints the versions and exits with 0."""
    return click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the versions of Thimble and its libraries, and exit.",
    )


def _print_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from runtime.distribution import version

    click.echo(f"thimble {version()}")
    libraries = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
    click.echo(f"with {libraries}, Python {sys.version.split()[0]}")
    context.exit()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
