"""The AAR, the sample app and Kotlin, as far as systems without Android's tools can check them."""

import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.java import PROGRAMS, Java, build_java, compile_java, require_jdk

from runtime.build import CROSS_COMPILER, SOURCE_DIR, build, find_jdk
from runtime.errors import BuildError
from runtime.packaging.executorch_source import find_source
from runtime.packaging.java_package import ANDROID, LEAST_SDK, LIBRARY, MODULE, write_aar

pytestmark = pytest.mark.check
PAGE = 16 << 10
SAMPLE = ANDROID / "sample" / "src" / "main" / "java" / "dev" / "thimble" / "sample"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Java:
    return build_java(tmp_path_factory.mktemp("java"))


def cli(*options: str | Path, ndk: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ANDROID_NDK"}
    return subprocess.run(
        [sys.executable, "-m", "runtime", "build", "--target", "android", *options],
        env=environment | ({"ANDROID_NDK": ndk} if ndk is not None else {}),
        capture_output=True,
        text=True,
    )


def test_without_an_ndk() -> None:
    require_jdk()
    result = cli()
    assert result.returncode == 1
    assert "thimble.aar has no native library, and does not run: set ANDROID_NDK" in result.stderr
    path = result.stdout.removeprefix("wrote ").strip()
    with zipfile.ZipFile(path) as archive:
        assert not any(name.startswith("jni/") for name in archive.namelist())


def test_an_ndk_needs_the_source() -> None:
    result = cli(ndk="/nowhere")
    assert result.returncode == 2
    assert "name a clone of it with --executorch-source DIR" in result.stderr


def test_what_is_no_ndk(shared_data: Path) -> None:
    result = cli("--executorch-source", shared_data / "executorch_source", ndk="/nowhere")
    assert result.returncode == 1
    assert "ANDROID_NDK is /nowhere, but must be an NDK" in result.stderr


def test_without_a_jdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_jdk() is None
    with pytest.raises(BuildError, match="no JDK was found: install one with jni.h"):
        write_aar(tmp_path / "a.aar", None)
    assert not (tmp_path / "a.aar").exists()


def test_what_an_aar_has(tmp_path: Path) -> None:
    require_jdk()
    library = tmp_path / "library"
    library.write_bytes(b"of Arm")
    for name in ("first.aar", "second.aar"):
        write_aar(tmp_path / name, library)
    assert (tmp_path / "first.aar").read_bytes() == (tmp_path / "second.aar").read_bytes()
    with zipfile.ZipFile(tmp_path / "first.aar") as archive:
        manifest = archive.read("AndroidManifest.xml").decode()
        assert 'package="dev.thimble"' in manifest
        assert f'android:minSdkVersion="{LEAST_SDK}"' in manifest
        assert archive.read(f"jni/arm64-v8a/{LIBRARY}") == b"of Arm"
        assert archive.read("proguard.txt") == (MODULE / "consumer-rules.pro").read_bytes()
        classes = zipfile.ZipFile(io.BytesIO(archive.read("classes.jar")))
    for name in ("Runner", "Chat", "AnswerOptions", "Engine", "Stats", "RunnerException"):
        version = struct.unpack_from(">I2H", classes.read(f"dev/thimble/{name}.class"))[2]
        assert version == 55, "Java 11"


def test_numbers_that_several_files_have() -> None:
    gradle = (MODULE / "build.gradle.kts").read_text()
    assert f"minSdk = {LEAST_SDK}\n" in gradle
    assert f"minSdk = {LEAST_SDK}\n" in (ANDROID / "sample" / "build.gradle.kts").read_text()
    presets = json.loads((SOURCE_DIR / "CMakePresets.json").read_text())["configurePresets"]
    (preset,) = (preset for preset in presets if preset["name"] == "android-arm64")
    assert preset["cacheVariables"]["ANDROID_PLATFORM"] == f"android-{LEAST_SDK}"
    assert (MODULE / re.findall(r'path = file\("(.*)"\)', gradle)[0]).is_file()


def test_the_api_knows_nothing_of_android() -> None:
    sources = list((MODULE / "src").rglob("*.java"))
    assert len(sources) > 10
    assert not [path for path in sources if "android." in path.read_text(encoding="utf-8")]


def test_the_rules_name_what_there_is() -> None:
    """What the shrinker keeps for the native library."""
    rules = (MODULE / "consumer-rules.pro").read_text()
    names = set(re.findall(r"dev\.thimble\.(\w+)", rules))
    folder = MODULE / "src" / "main" / "java" / "dev" / "thimble"
    assert names and all((folder / f"{name}.java").is_file() for name in names)
    native = "".join(path.read_text() for path in (SOURCE_DIR / "java").glob("*.cpp"))
    found = set(re.findall(r'"dev/thimble/(\w+)"', native))
    assert found and found <= names


def test_the_sample_talks(
    java: Java, chat_pte: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    """All of the sample but its screen."""
    programs = [SAMPLE / "Talk.java", *(PROGRAMS / "sample").glob("*.java")]
    compile_java(programs, tmp_path, *java.classes)
    sample = Java(java.jdk, java.library, (*java.classes, tmp_path))
    sample.run("dev.thimble.sample.SampleTalk", chat_pte, stories_cpu_pte)


def test_the_samples_screen(java: Java, tmp_path: Path) -> None:
    """It is Java, and lacks nothing but Android's classes."""
    classes = ":".join(map(str, java.classes))
    command = [java.jdk / "bin" / "javac", "-cp", classes, "-d", tmp_path, "-Xmaxerrs", "1000"]
    result = subprocess.run(
        [*command, *SAMPLE.glob("*.java")], capture_output=True, text=True, check=False
    )
    errors = re.findall(r"error: (.*)\n(?:.*\n.*\n  symbol: +(.*))?", result.stderr)
    assert len(errors) > 10
    missing = re.compile(
        r"(package (android\.\S+|LinearLayout)|method) does not |cannot find symbol"
    )
    assert all(missing.match(error) for error, _ in errors), result.stderr
    assert "dev.thimble" not in " ".join(symbol for _, symbol in errors)


def load_alignments(library: bytes) -> list[int]:
    """Of the segments of an ELF file of 64 bits."""
    assert library[:5] == b"\x7fELF\x02"
    start = struct.unpack_from("<Q", library, 32)[0]
    size, count = struct.unpack_from("<2H", library, 54)
    headers = [library[start + i * size :][:size] for i in range(count)]
    loaded = [header for header in headers if struct.unpack_from("<I", header)[0] == 1]
    return [struct.unpack_from("<Q", header, 48)[0] for header in loaded]


@pytest.mark.soak
def test_pages_of_16_kilobytes(shared_data: Path) -> None:
    """The library for Arm, by Debian's cross compiler in place of an NDK's."""
    require_jdk()
    if shutil.which(CROSS_COMPILER) is None:
        pytest.skip(f"{CROSS_COMPILER} is not installed (Debian: g++-aarch64-linux-gnu)")
    try:
        source = find_source(shared_data / "executorch_source")
    except BuildError as error:
        pytest.skip(str(error))
    library = build("aarch64-static", ("thimble_jni",), source).directory / LIBRARY
    alignments = load_alignments(library.read_bytes())
    assert alignments and all(alignment % PAGE == 0 for alignment in alignments)


STAND_IN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER {compiler})
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES {jni})
"""


@pytest.mark.soak
def test_the_command_with_a_toolchain(shared_data: Path, tmp_path: Path) -> None:
    """The whole command, with Debian's cross compiler where the NDK's toolchain would be."""
    include = require_jdk() / "include"
    compiler = shutil.which(CROSS_COMPILER)
    if compiler is None:
        pytest.skip(f"{CROSS_COMPILER} is not installed (Debian: g++-aarch64-linux-gnu)")
    toolchain = tmp_path / "build" / "cmake" / "android.toolchain.cmake"
    toolchain.parent.mkdir(parents=True)
    toolchain.write_text(STAND_IN.format(compiler=compiler, jni=f"{include} {include / 'linux'}"))
    result = cli("--executorch-source", shared_data / "executorch_source", ndk=str(tmp_path))
    assert result.returncode == 0, result.stderr
    path = result.stdout.removeprefix("wrote ").partition(" with ")[0]
    with zipfile.ZipFile(path) as archive:
        library = archive.read(f"jni/arm64-v8a/{LIBRARY}")
    assert all(alignment % PAGE == 0 for alignment in load_alignments(library))
    shutil.rmtree(build_directory())


def build_directory() -> Path:
    from runtime.build import ANDROID_PRESET, BUILD_DIR

    return BUILD_DIR / ANDROID_PRESET
