"""`python -m runtime build` and `package`."""

import os
from pathlib import Path

import click

from exporter.command_line.filled import FilledPath
from exporter.command_line.running import RunningLines
from runtime.build import PRODUCTS, wheel_directory
from runtime.commands.phones import build_android, build_apple, build_java
from runtime.commands.results import build_and_tell, fail
from runtime.errors import BuildError
from runtime.packaging.executorch_source import ExecutorchSource, find_source
from runtime.packaging.package import TARGETS, package
from runtime.packaging.wheel import fetch_wheel

# The systems that are built from ExecuTorch's source, and the presets of each.
PRESETS = {
    "aarch64-static": ["aarch64-static"],
    "macos-arm64": ["macos-arm64"],
    "wasm32": ["wasm32", "wasm32-relaxed", "wasm32-threads"],
}


@click.command("build", short_help="Build the C++ that is out of date.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also build the programs of the tests, such as build/metal_runner.",
)
@click.option("--only", type=click.Choice(PRODUCTS), help="Build one product, not all.")
@click.option("--sanitize", is_flag=True, help="With ASan and UBSan, into build/asan.")
@click.option(
    "--target",
    type=click.Choice(["host", "aarch64", *PRESETS, "java", "android", "apple"]),
    default="host",
    show_default=True,
    help="Arm on Linux: aarch64 (downloads ExecuTorch's wheel for it once), or aarch64-static "
    "(one file without libraries, for any Linux kernel, also Android's). Apple: macos-arm64 "
    "(linked here, never run), or apple (a Swift package for iOS and macOS). Browsers and node: "
    "wasm32, also with relaxed SIMD, into build/wasm32-relaxed, and with threads too, into "
    "build/wasm32-threads. Java: java (the API for this machine), or android (the same as an AAR; "
    "the NDK that ANDROID_NDK names compiles its library). The result is in build/TARGET.",
)
@click.option(
    "--executorch-source",
    type=FilledPath("name a directory", file_okay=False),
    help="A clone of ExecuTorch, whose runtime is compiled in place of its wheel's; the result "
    "runs programs of --delegate cpu. For the host, it is in build/source.",
)
def build_command(
    everything: bool,
    only: str | None,
    sanitize: bool,
    target: str,
    executorch_source: Path | None,
) -> None:
    """Build what is out of date in the C++."""
    if sanitize and target != "host":
        raise click.UsageError(f"--sanitize is for the host: leave out --target {target}")
    if only is not None and (everything or sanitize or target != "host" or executorch_source):
        raise click.UsageError(
            f"--only {only} is for the host: leave out --all, --sanitize, --target and "
            "--executorch-source"
        )
    if target in ("java", "android"):
        source = None if executorch_source is None else _find_source(executorch_source)
        build_java(source) if target == "java" else build_android(source)
        return
    if executorch_source is not None:
        if sanitize or target == "aarch64":
            raise click.UsageError("--sanitize and --target aarch64 use ExecuTorch's wheel")
        source = _find_source(executorch_source)
        if target == "apple":
            build_apple(source)
            return
        for preset in PRESETS.get(target, ["source"]):
            product = "thimble_web" if target == "wasm32" else "runner"
            click.echo(build_and_tell(preset, (product,), source))
        return
    if target in PRESETS or target == "apple":
        raise click.UsageError(
            f"--target {target} compiles ExecuTorch's runtime: name a clone of it with "
            "--executorch-source DIR"
        )
    if only is not None:
        told = f"lib{only}.so" if only.startswith("thimble") else only
        click.echo(build_and_tell("default", (only,), told=told))
        return
    targets = () if everything else PRODUCTS
    if target == "host":
        click.echo(build_and_tell("asan", ()) if sanitize else build_and_tell("default", targets))
        return
    try:
        if fetch_wheel(wheel_directory()):
            click.echo(f"fetched {wheel_directory()}")
    except BuildError as error:
        fail(error, 1)
    click.echo(build_and_tell(target, targets))


@click.command("package", short_help="Write a wheel with the compiled programs.")
@click.option(
    "--out",
    type=FilledPath("name a directory", file_okay=False),
    default=Path("."),
    show_default=True,
    help="The directory for the wheel.",
)
@click.option(
    "--target",
    type=click.Choice(list(TARGETS)),
    default="host",
    show_default=True,
    help="The machine of the wheel: this one, or Arm on Linux, compiled by Debian's "
    "g++-aarch64-linux-gnu on ExecuTorch's wheel for it, which is downloaded once.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Write it also where libraries are missing that read pictures or check signatures.",
)
def package_command(out: Path, target: str, partial: bool) -> None:
    """Write a wheel with the compiled programs, for this machine or another."""
    if not out.is_dir():
        fail(BuildError(f"{out} does not exist; name an existing, writable directory."), 2)
    if not os.access(out, os.W_OK | os.X_OK):
        fail(BuildError(f"{out} cannot be written; name an existing, writable directory."), 2)
    with RunningLines(lambda line: click.echo(line, err=True)) as lines:
        lines.begin("Building the C++")
        try:
            click.echo(f"wrote {package(out, target, partial, lines.progress)}")
        except BuildError as error:
            fail(error, 1)


def _find_source(directory: Path) -> ExecutorchSource:
    try:
        return find_source(directory)
    except BuildError as error:
        fail(error, 2)
