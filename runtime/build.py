"""Builds the C++ with CMake and ninja, on ExecuTorch from its wheel or from its source."""

import fcntl
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.distribution import version, with_extra
from runtime.errors import BuildError
from runtime.executorch_package import find_executorch
from runtime.packaging.executorch_source import ExecutorchSource
from runtime.packaging.ios_sdk import write_ios_sdk

SOURCE_DIR = Path(__file__).resolve().parent / "cpp"
CHECKOUT = SOURCE_DIR.parent.parent
PACKAGED = SOURCE_DIR.parent / "bin"  # in a wheel: already built
CROSS_COMPILER = "aarch64-linux-gnu-g++"
# All except the programs of the tests.
PRODUCTS = ("runner", "thimble", "thimble_cpu", "thimble_watch", "bench")
# Systems without a wheel of ExecuTorch, and the host without one ("source").
ANDROID_PRESET = "android-arm64"
IOS_PRESETS = ("ios-arm64", "ios-arm64-simulator")
WASM_PRESETS = ("wasm32", "wasm32-relaxed", "wasm32-threads")
SOURCE_PRESETS = (
    *("source", "aarch64-static", "macos-arm64", *IOS_PRESETS, *WASM_PRESETS),
    ANDROID_PRESET,
)
ZIG_PRESETS = ("macos-arm64", *IOS_PRESETS, *WASM_PRESETS)


def _build_directory() -> Path:
    """Returns build/ in a checkout. For an installed package it is the wheel's directory of
    binaries, or, if the wheel has none, the user's cache directory: installed files are never
    written."""
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "build"
    if PACKAGED.is_dir():
        return PACKAGED
    cache = os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path.home() / ".cache"
    return home / "thimble" / f"build-{version()}"


BUILD_DIR = _build_directory()
# What helps where a program or library of it is missing or broken.
REMEDY = (
    "install the wheel again, with pip's --force-reinstall"
    if BUILD_DIR == PACKAGED
    else "run thimble-runtime build"
)
Progress = Callable[[int, int], None]
_DR_LIBS = "THIMBLE_DR_LIBS"  # of the environment, and of CMake
_STEP = re.compile(r"\[(\d+)/(\d+)\] ")  # of ninja


@dataclass(frozen=True)
class Build:
    """A finished build: its directory and its time in seconds; 0 if everything was up to date."""

    directory: Path
    seconds: float


def build(
    preset: str = "default",
    targets: tuple[str, ...] = (),
    source: ExecutorchSource | None = None,
    progress: Progress | None = None,
    search: bool = False,
) -> Build:
    """Builds what is out of date; configures only if necessary.

    Args:
        preset: of CMakePresets.json: "default", into build/; "asan", into build/asan; "tsan",
            into build/tsan; "aarch64", into build/aarch64, for Arm on Linux: needs the result of
            fetch_wheel(wheel_directory()); those of SOURCE_PRESETS, into build/ and their name.
        targets: of CMake, such as PRODUCTS; none: all.
        source: ExecuTorch's, of which the runtime is then compiled too; SOURCE_PRESETS need it.
        progress: is called with the number of finished steps and of all.
        search: looks again for libraries that were not found when it was configured.

    Raises:
        BuildError: a tool or the wheel is missing, or the compiler failed; the message ends with
            its output.
    """
    if BUILD_DIR == PACKAGED and preset == "default":
        return Build(PACKAGED, 0.0)
    check_can_build()
    directory = BUILD_DIR if preset == "default" else BUILD_DIR / preset
    cmake, ninja = find_tool("cmake"), find_tool("ninja")
    settings: dict[str, Path | str] = {
        **_find_compiler(preset),
        **_find_executorch(preset, source),
        **find_dr_libs(),
        "THIMBLE_JNI_INCLUDE": _find_jni(preset),
        "CMAKE_MAKE_PROGRAM": ninja,
        "THIMBLE_VERSION": version(),
    }
    directory.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with _lock(directory / ".lock"):
        environment = _environment(preset, directory)
        configured = _is_configured(directory, settings)
        if not configured:
            options = [f"-D{name}={value}" for name, value in settings.items()]
            _run([cmake, "--preset", preset, "-B", directory, "--fresh", *options], environment)
        elif search:
            _run([cmake, directory], environment)
        output = _run([ninja, "-C", directory, *targets], environment, progress)
    idle = configured and "no work to do" in output
    return Build(directory, 0.0 if idle else time.monotonic() - start)


def check_can_build() -> None:
    """Raises BuildError if this package was installed with compiled programs."""
    if BUILD_DIR == PACKAGED:
        raise BuildError(
            "this package was installed with compiled programs and cannot build others; clone the "
            "repository to build for other systems."
        )


def wheel_directory() -> Path:
    """Returns where the aarch64 build looks for ExecuTorch's unpacked wheel.

    Raises:
        BuildError: an installed package with compiled programs has no such build.
    """
    check_can_build()
    return BUILD_DIR / "aarch64" / f"executorch-{importlib.metadata.version('executorch')}"


def _find_compiler(preset: str) -> dict[str, Path | str]:
    """Checks that the preset's compiler is there, and returns where, if CMake cannot know it."""
    if preset.startswith("aarch64") and shutil.which(CROSS_COMPILER) is None:
        raise BuildError(f"{CROSS_COMPILER} is not installed (Debian: g++-aarch64-linux-gnu)")
    if preset == ANDROID_PRESET:
        _find_ndk()
    return {"THIMBLE_ZIG": find_zig()} if preset in ZIG_PRESETS else {}


def _find_ndk() -> None:
    ndk = os.environ.get("ANDROID_NDK", "")
    toolchain = Path(ndk) / "build" / "cmake" / "android.toolchain.cmake"
    if not toolchain.is_file():
        raise BuildError(f"ANDROID_NDK is {ndk or 'not set'}, but must be an NDK: no {toolchain}")


def _find_executorch(preset: str, source: ExecutorchSource | None) -> dict[str, Path | str]:
    """Returns where CMake finds ExecuTorch for the preset."""
    if source is not None:
        return {
            "THIMBLE_EXECUTORCH_SOURCE": source.directory,
            "THIMBLE_FLATC": source.flatc,
            "THIMBLE_FLATBUFFERS": source.flatbuffers,
        }
    if preset in SOURCE_PRESETS:
        raise BuildError(f"{preset} compiles ExecuTorch's runtime: name its source")
    if preset != "aarch64":
        return {"executorch_DIR": _find_wheel()}
    directory = wheel_directory()
    if not directory.is_dir():
        raise BuildError(
            f"{directory} is missing: thimble-runtime build --target aarch64 fetches it"
        )
    return {"executorch_DIR": directory / "share" / "cmake"}


def _find_jni(preset: str) -> str:
    """Returns the folders of a JDK's jni.h as a list of CMake's; "" where there is none, and for
    Android, whose compiler has its own."""
    jdk = find_jdk()
    if jdk is None or preset == ANDROID_PRESET:
        return ""
    include = jdk / "include"
    return ";".join(str(folder) for folder in (include, *sorted(include.glob("*/"))))


def find_dr_libs() -> dict[str, Path | str]:
    """Returns the setting of the folder that the environment names, if it names one."""
    named = os.environ.get(_DR_LIBS)
    if not named:
        return {}
    folder = Path(named).resolve()
    for header in ("dr_flac.h", "dr_mp3.h"):
        if not (folder / header).is_file():
            raise BuildError(f"{_DR_LIBS} is {named}, which has no {header}: name dr_libs' folder.")
    return {_DR_LIBS: folder}


def find_jdk() -> Path | None:
    """Returns the folder of a Java development kit: that of JAVA_HOME, else of javac on the PATH;
    None if there is none."""
    home, javac = os.environ.get("JAVA_HOME"), shutil.which("javac")
    candidates = [Path(home)] if home else []
    if javac is not None:
        candidates.append(Path(javac).resolve().parent.parent)
    return next((jdk for jdk in candidates if (jdk / "include" / "jni.h").is_file()), None)


def find_zig() -> Path:
    """Returns the compiler of the ziglang package."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(f"the ziglang package is not installed: {with_extra('zig')}")
    return Path(next(iter(spec.submodule_search_locations))) / "zig"


def find_tool(name: str) -> Path:
    """Returns the tool of this environment, else of the PATH."""
    beside_python = Path(sys.executable).parent / name
    if beside_python.is_file():
        return beside_python
    path = shutil.which(name)
    if path is None:
        raise BuildError(f"{name} is not installed: pip install cmake ninja")
    return Path(path)


def _find_wheel() -> Path:
    directory = find_executorch() / "share" / "cmake"
    if not (directory / "executorch-config.cmake").is_file():
        raise BuildError(f"{directory} has no executorch-config.cmake: install its 1.5.1 wheel")
    return directory


def _is_configured(directory: Path, settings: dict[str, Path | str]) -> bool:
    """Whether the directory was configured completely, with these settings, from this source."""
    if not (directory / "build.ninja").is_file():
        return False
    entries = configured_with(directory)
    expected = {"CMAKE_HOME_DIRECTORY": SOURCE_DIR, **settings}
    return all(entries.get(name) == str(value) for name, value in expected.items())


def configured_with(directory: Path) -> dict[str, str]:
    """Returns the variables of a build's CMakeCache.txt; none if there is no such file."""
    cache = directory / "CMakeCache.txt"
    if not cache.is_file():
        return {}
    lines = cache.read_text(encoding="utf-8").splitlines()
    entries = (line.partition("=") for line in lines)
    return {name.partition(":")[0]: value for name, separator, value in entries if separator}


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Allows one build of a directory at a time, over all processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _environment(preset: str, directory: Path) -> dict[str, str]:
    """What the build's programs see."""
    if preset not in IOS_PRESETS:
        return dict(os.environ)
    return {**os.environ, "ZIG_LIBC": str(write_ios_sdk(find_zig(), directory / "sdk"))}


def _run(
    command: list[str | Path], environment: dict[str, str], progress: Progress | None = None
) -> str:
    """Returns what the command printed. If the block around it is left, it is ended too."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=SOURCE_DIR,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                step = _STEP.match(line)
                if step is not None and progress is not None:
                    progress(int(step[1]), int(step[2]))
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        output = "".join(lines[-40:]).strip()
        raise BuildError(
            f"{Path(command[0]).name} failed with code {process.returncode}:\n{output}"
        )
    return "".join(lines)
