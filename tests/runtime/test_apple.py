"""The Swift package, as far as systems without Swift can check it."""

import plistlib
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from support.c_header import HEADER, constants, functions, structs
from support.swift import Call, SwiftSource

from runtime import Runner
from runtime.build import build
from runtime.errors import BuildError
from runtime.packaging.apple_package import APPLE, SLICES, write_framework, write_package
from runtime.packaging.executorch_source import find_source

SOURCES = sorted(APPLE.rglob("*.swift"))


@pytest.fixture(scope="module")
def clang() -> str:
    found = shutil.which("clang")
    if found is None:
        pytest.skip("clang is not installed")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_sources_are_swift(path: Path) -> None:
    assert SwiftSource(path.read_text(encoding="utf-8")).errors() == []


def test_what_is_not_swift_is_found() -> None:
    assert SwiftSource("func f( {\n    let x = = 1\n}\n").errors()


def test_what_they_call_of_c_is_there() -> None:
    """Functions with as many arguments, structs with these fields in order, constants."""
    parsed = [SwiftSource(path.read_text(encoding="utf-8")) for path in SOURCES]
    declared, records = functions(), structs()
    called = {
        call for source in parsed for call in source.calls() if call.name.startswith("thimble_")
    }
    assert len(called) > 25
    for call in called:
        if call.name in records:
            assert call.labels == records[call.name], call
        else:
            assert len(call.labels) == declared[call.name], call
            assert not any(call.labels), call
    used = set().union(*(source.names() for source in parsed))
    named = {name for name in used if name.startswith("THIMBLE_")}
    assert named and named <= constants()
    types = {name for name in used if name.startswith("thimble_")} - declared.keys()
    assert types <= records.keys() | {"thimble_text_callback", "thimble_token_callback"}


def test_calls_are_read() -> None:
    source = SwiftSource("func f() { try g { thimble_a(x, &y, b: 1, $0) } }")
    assert Call("thimble_a", (None, None, "b", None)) in source.calls()


def test_the_sample_uses_what_is_public() -> None:
    text = "".join(
        path.read_text(encoding="utf-8") for path in (APPLE / "Sources").rglob("*.swift")
    )
    public = set(
        re.findall(r"public (?:static )?(?:func|var|let|struct|final class|enum) (\w+)", text)
    )
    sample = (APPLE / "Sample" / "SampleApp.swift").read_text(encoding="utf-8")
    used = {"Runner", "Chat", "AnswerOptions", "say", "generate", "stats", "temperature", "topP"}
    assert used | {"decodeTokensPerSecond"} <= public
    assert all(re.search(rf"\b{name}\b", sample) for name in used)


def test_the_statistics_are_those_of_an_answer(cpp_build: Path, stories_cpu_pte: Path) -> None:
    text = (APPLE / "Sources" / "Thimble" / "Stats.swift").read_text(encoding="utf-8")
    decoded = {raw or name for name, raw in re.findall(r'case (\w+)(?: = "(\w+)")?', text)}
    with Runner(stories_cpu_pte, threads=1) as runner:
        assert decoded <= runner.stats.keys()  # they are there before the first answer
    assert {"stop_reason", "incomplete", "left_out"} <= decoded


@pytest.mark.parametrize(
    ("language", "standard"),
    [("c", "c99"), ("c++", "c++11"), ("objective-c", "c99"), ("objective-c++", "c++11")],
)
def test_the_header_alone(clang: str, tmp_path: Path, language: str, standard: str) -> None:
    source = tmp_path / "source"
    source.write_text('#include "thimble.h"\nint dummy;\n')
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-pragma-once-outside-header"]
    options = ["-x", language, f"-std={standard}", "-I", HEADER.parent, "-fsyntax-only"]
    subprocess.run([clang, *strict, *options, source], check=True)


@pytest.mark.parametrize("preset", SLICES)
def test_the_framework_is_a_module(clang: str, tmp_path: Path, preset: str) -> None:
    binary = tmp_path / "binary"
    binary.touch()
    write_framework(tmp_path / "CThimble.framework", binary, SLICES[preset], "1.2.3")
    source = tmp_path / "source.m"
    source.write_text(
        "@import CThimble;\n"
        "const char* f(void) { return thimble_version(); }\n"
        "int g(void) { return THIMBLE_JSON_SCHEMA; }\n"
    )
    modules = ["-fmodules", f"-fmodules-cache-path={tmp_path / 'cache'}", "-F", tmp_path]
    # The framework's search is that of Apple's systems.
    target = ["-target", "arm64-apple-macos13", "-ffreestanding", "-nostdlibinc"]
    command = [clang, *target, *modules, "-Wall", "-Werror", "-fsyntax-only", source]
    subprocess.run(command, check=True)


def test_the_package(tmp_path: Path) -> None:
    libraries = {}
    for preset in SLICES:
        libraries[preset] = tmp_path / preset
        libraries[preset].write_text(preset)
    package = tmp_path / "package"
    write_package(package, libraries, "1.2.3")
    manifest = (package / "Package.swift").read_text()
    assert 'path: "CThimble.xcframework"' in manifest
    for slice in SLICES.values():
        system = "macOS" if slice.platform == "macos" else "iOS"
        assert f".{system}(.v{slice.least_version.removesuffix('.0')})" in manifest
    framework = package / "CThimble.xcframework"
    listed = plistlib.loads((framework / "Info.plist").read_bytes())
    assert len(listed["AvailableLibraries"]) == len(SLICES)
    for library in listed["AvailableLibraries"]:
        folder = framework / library["LibraryIdentifier"]
        assert (folder / library["BinaryPath"]).read_text() == library["LibraryIdentifier"]
        bundle = folder / library["LibraryPath"]
        assert (bundle / "CThimble").read_text() == library["LibraryIdentifier"]
        assert (bundle / "Headers" / "thimble.h").read_bytes() == HEADER.read_bytes()
        assert (bundle / "Modules" / "module.modulemap").is_file()
        inside = "Resources/Info.plist" if library["SupportedPlatform"] == "macos" else "Info.plist"
        told = plistlib.loads((bundle / inside).read_bytes())
        assert told["CFBundleExecutable"] == "CThimble"
        assert told["CFBundleShortVersionString"] == "1.2.3"
    write_package(package, libraries, "1.2.3")  # over the old one


def load_commands(binary: bytes) -> dict[int, bytes]:
    """The last Mach-O load command of each kind."""
    magic, cpu, _, _, count = struct.unpack_from("<5I", binary)
    assert (magic, cpu) == (0xFEEDFACF, 0x0100000C), "64 bits, for arm64"
    commands, at = {}, 32
    for _ in range(count):
        kind, size = struct.unpack_from("<2I", binary, at)
        commands[kind] = binary[at : at + size]
        at += size
    return commands


LC_ID_DYLIB, LC_BUILD_VERSION, LC_LOAD_DYLIB = 0xD, 0x32, 0xC
PLATFORMS = {"macos-arm64": 1, "ios-arm64": 2, "ios-arm64-simulator": 7}


@pytest.mark.soak
@pytest.mark.parametrize("preset", SLICES)
def test_the_library_is_linked(shared_data: Path, preset: str) -> None:
    """Linked, not run: there is nothing here to run it on."""
    pytest.importorskip("ziglang", reason="pip install 'thimble-ml[zig]'")
    try:
        source = find_source(shared_data / "executorch_source")
    except BuildError as error:
        pytest.skip(str(error))
    library = build(preset, ("thimble_framework",), source).directory / "CThimble"
    commands = load_commands(library.read_bytes())
    platform, least = struct.unpack_from("<2I", commands[LC_BUILD_VERSION], 8)
    assert (platform, least >> 16) == (
        PLATFORMS[preset],
        int(SLICES[preset].least_version.partition(".")[0]),
    )
    name = commands[LC_ID_DYLIB][24:].rstrip(b"\0").decode()
    inside = "Versions/A/" if SLICES[preset].versioned else ""
    assert name == f"@rpath/CThimble.framework/{inside}CThimble"
    assert b"/usr/lib/libSystem.B.dylib" in commands[LC_LOAD_DYLIB]
    nm = shutil.which("llvm-nm")
    if nm is not None:
        command = [nm, "--defined-only", "--extern-only", library]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        defined = {line.split()[-1] for line in said.splitlines()}
        assert {f"_{name}" for name in functions()} <= defined
