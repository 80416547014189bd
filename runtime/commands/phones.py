"""`python -m runtime build --target java`, `android` and `apple`: what apps are built with."""

import os
from pathlib import Path

import click

from runtime.build import ANDROID_PRESET, BUILD_DIR, build
from runtime.commands.results import fail
from runtime.distribution import version
from runtime.errors import BuildError
from runtime.packaging.apple_package import SLICES, write_package
from runtime.packaging.executorch_source import ExecutorchSource
from runtime.packaging.java_package import copy_library, write_aar, write_jar

JNI = ("thimble_jni",)


def build_java(source: ExecutorchSource | None) -> None:
    """Writes the jar and this machine's native library."""
    directory = BUILD_DIR / "java"
    try:
        built = build("default" if source is None else "source", JNI, source)
        library = copy_library(built.directory, directory)
        write_jar(directory / "thimble.jar")
    except BuildError as error:
        fail(error, 1)
    click.echo(f"wrote {directory / 'thimble.jar'} and {library}")


def build_android(source: ExecutorchSource | None) -> None:
    """Writes the AAR; with its native library only where there is an NDK."""
    aar = BUILD_DIR / "android" / "thimble.aar"
    if not os.environ.get("ANDROID_NDK"):
        _write_aar(aar, None)
        click.echo(f"wrote {aar}")
        missing = (
            f"{aar} has no native library, and does not run: set ANDROID_NDK to an NDK, and name a "
            "clone of ExecuTorch with --executorch-source DIR"
        )
        fail(BuildError(missing), 1)
    if source is None:
        raise click.UsageError(
            "--target android compiles ExecuTorch's runtime: name a clone of it with "
            "--executorch-source DIR"
        )
    try:
        library = build(ANDROID_PRESET, JNI, source).directory / "libthimble_jni.so"
    except BuildError as error:
        fail(error, 1)
    _write_aar(aar, library)
    click.echo(f"wrote {aar} with {library}")


def build_apple(source: ExecutorchSource) -> None:
    """Writes the Swift package, with an XCFramework that ziglang links."""
    directory = BUILD_DIR / "apple"
    try:
        libraries = {
            preset: build(preset, ("thimble_framework",), source).directory / "CThimble"
            for preset in SLICES
        }
    except BuildError as error:
        fail(error, 1)
    write_package(directory, libraries, version())
    click.echo(f"wrote {directory} with {', '.join(libraries)}")


def _write_aar(aar: Path, library: Path | None) -> None:
    try:
        write_aar(aar, library)
    except BuildError as error:
        fail(error, 1)
