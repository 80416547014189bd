"""The Java API, built, and programs of tests that use it, run with JNI's checks."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.build import build, find_jdk
from runtime.packaging.java_package import write_jar

PROGRAMS = Path(__file__).with_name("java")
# What -Xcheck:jni begins its lines with.
COMPLAINTS = ("WARNING", "FATAL ERROR", "*** Error")


def require_jdk() -> Path:
    """The JDK; skips the test where there is none."""
    jdk = find_jdk()
    if jdk is None:
        pytest.skip("no JDK is installed (Debian: openjdk-17-jdk-headless)")
    return jdk


@dataclass(frozen=True)
class Java:
    """The API and the programs of tests, compiled."""

    jdk: Path
    library: Path
    classes: tuple[Path, ...]

    def run(self, program: str, *arguments: object, options: Sequence[str] = ()) -> str:
        """What a program prints; it must succeed, and JNI's checks must find nothing.

        Args:
            options: of the JVM.
        """
        command = [
            *(self.jdk / "bin" / "java", "-Xcheck:jni", *options),
            *(f"-Dthimble.library={self.library}", "-Dfile.encoding=UTF-8"),
            *("-cp", ":".join(map(str, self.classes)), program, *map(str, arguments)),
        ]
        result = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
        complaints = [
            line
            for line in (result.stdout + result.stderr).splitlines()
            if line.startswith(COMPLAINTS)
        ]
        assert not complaints, "\n".join(complaints[:20])
        return result.stdout


def build_java(directory: Path) -> Java:
    """Compiles everything; the native library is this machine's."""
    jdk = require_jdk()
    library = build(targets=("thimble_jni",)).directory / "libthimble_jni.so"
    jar, classes = directory / "thimble.jar", directory / "classes"
    write_jar(jar)
    compile_java([*PROGRAMS.glob("*.java")], classes, jar)
    return Java(jdk, library, (jar, classes))


def compile_java(sources: list[Path], classes: Path, *libraries: Path) -> None:
    command = [require_jdk() / "bin" / "javac", "-encoding", "UTF-8", "-Xlint:all,-try", "-Werror"]
    path = ["-cp", ":".join(map(str, libraries))]
    result = subprocess.run(
        [*command, *path, "-d", classes, *sources], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
