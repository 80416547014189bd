"""The runner on ExecuTorch's runtime compiled from its source: it says what the wheel's says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.build import CROSS_COMPILER, build
from runtime.errors import BuildError
from runtime.packaging.executorch_source import ExecutorchSource, find_source

EMULATOR = "qemu-aarch64"
PROMPT = ["-p", "Once upon a time", "-n", "40", "--threads", "2"]


@pytest.fixture(scope="module")
def source(shared_data: Path) -> ExecutorchSource:
    directory = shared_data / "executorch_source"
    if not directory.is_dir():
        pytest.skip(f"{directory} is missing")
    try:
        return find_source(directory)
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def static_runner(source: ExecutorchSource) -> Path:
    for tool, package in ((CROSS_COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: {package})")
    return build("aarch64-static", ("runner",), source).directory / "runner"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.soak
@pytest.mark.parametrize("model", ["stories_cpu_pte", "embedded_cpu_pte"])
def test_the_same_text_from_source(
    cpp_build: Path, source: ExecutorchSource, model: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(model)
    built = build("source", ("runner", "thimble"), source).directory
    result = run(built / "runner", path, *PROMPT)
    assert result.returncode == 0, result.stderr
    assert result.stdout == run(cpp_build / "runner", path, *PROMPT).stdout != ""
    for program in ("runner", "libthimble.so"):
        assert "executorch" not in run("ldd", built / program).stdout


@pytest.mark.soak
def test_messages_from_source(
    cpp_build: Path, static_runner: Path, stories_cpu_pte: Path, stories_pte: Path, tmp_path: Path
) -> None:
    built = (EMULATOR, static_runner)
    damaged = tmp_path / "damaged.pte"
    data = bytearray(stories_cpu_pte.read_bytes())
    data[300] ^= 255
    damaged.write_bytes(data)
    for options in ([damaged, *PROMPT], [tmp_path, *PROMPT], [stories_cpu_pte, "-p", "x" * 9999]):
        here, there = run(*built, *options), run(cpp_build / "runner", *options)
        assert (here.returncode, here.stderr) == (there.returncode, there.stderr)
        assert here.returncode == 2
    refused = run(*built, stories_pte, *PROMPT)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"runner: {stories_pte} runs on XnnpackBackend, which this runner does not include: "
        "export it with --delegate cpu\n"
    )
    refused = run(*built, stories_cpu_pte, *PROMPT, "--etdump", tmp_path / "e")
    assert refused.returncode == 2
    assert refused.stderr.startswith("runner: this runner was built without ETDump")


@pytest.mark.soak
def test_the_static_runner_is_one_file(static_runner: Path) -> None:
    program = static_runner.read_bytes()
    assert program[:4] == b"\x7fELF" and b"/lib/ld-linux" not in program
    assert len(program) < 4 << 20


@pytest.mark.soak
@pytest.mark.parametrize(
    ("cpu", "kernels"),
    [
        ("max", "neon_i8mm"),
        ("neoverse-n1", "neon_dotprod"),
        ("cortex-a72", "scalar"),
        ("cortex-a53", "scalar"),
    ],
)
@pytest.mark.parametrize("model", ["stories_cpu_pte", "embedded_cpu_pte"])
def test_the_static_runner_says_the_same(
    cpp_build: Path,
    static_runner: Path,
    model: str,
    cpu: str,
    kernels: str,
    request: pytest.FixtureRequest,
) -> None:
    """Without -L: the emulator finds no library of the system's."""
    path = request.getfixturevalue(model)
    result = run(EMULATOR, "-cpu", cpu, static_runner, path, *PROMPT)
    assert result.returncode == 0, result.stderr
    assert f"kernels {kernels}, " in result.stderr
    assert result.stdout == run(cpp_build / "runner", path, *PROMPT).stdout != ""


@pytest.mark.soak
def test_the_static_runner_writes_its_files(
    cpp_build: Path, static_runner: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    session, statistics = tmp_path / "s", tmp_path / "stats.json"
    options = [*PROMPT, "--session", session, "--json", statistics]
    result = run(EMULATOR, static_runner, stories_cpu_pte, *options)
    assert result.returncode == 0, result.stderr
    assert statistics.read_text().startswith("{")
    resumed = run(cpp_build / "runner", stories_cpu_pte, *PROMPT, "--session", session)
    assert resumed.returncode == 0 and "more cached" in resumed.stderr


@pytest.mark.soak
def test_macos_is_linked(source: ExecutorchSource) -> None:
    """Linked, not run: there is nothing here to run it on."""
    pytest.importorskip("ziglang", reason="pip install 'thimble-ml[zig]'")
    runner = build("macos-arm64", ("runner",), source).directory / "runner"
    header = runner.read_bytes()[:16]
    assert header[:4] == bytes.fromhex("cffaedfe"), "a Mach-O file of 64 bits"
    assert header[4:8] == bytes.fromhex("0c000001"), "for arm64"


def fake_source(directory: Path, headers: str) -> Path:
    """A directory with the marks of ExecuTorch's source and of flatbuffers' headers."""
    (directory / "runtime" / "executor").mkdir(parents=True)
    (directory / "runtime" / "executor" / "method.cpp").touch()
    include = directory / "third-party" / "flatbuffers" / "include" / "flatbuffers"
    include.mkdir(parents=True)
    numbers = zip(("MAJOR", "MINOR", "REVISION"), headers.split("."), strict=True)
    lines = [f"#define FLATBUFFERS_VERSION_{name} {number}\n" for name, number in numbers]
    (include / "base.h").write_text("".join(lines))
    return directory


def test_the_headers_of_a_clone(tmp_path: Path) -> None:
    """Those of its submodule, with the compiler of ExecuTorch's wheel."""
    found = find_source(fake_source(tmp_path, "24.3.25"))
    assert found.directory == tmp_path
    assert found.flatbuffers == tmp_path / "third-party" / "flatbuffers" / "include"
    assert "24.3.25" in run(found.flatc, "--version").stdout


def test_headers_that_fit_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(BuildError, match="its C\\+\\+ headers 1.2.3: run git submodule update"):
        find_source(fake_source(tmp_path, "1.2.3"))


def test_what_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is not ExecuTorch's source: it has no runtime"):
        find_source(tmp_path)


def cli(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "runtime", "build", *options)


def test_a_target_needs_the_source() -> None:
    result = cli("--target", "aarch64-static")
    assert result.returncode == 2
    assert "name a clone of it with --executorch-source DIR" in result.stderr


def test_a_wrong_source_on_the_command_line(tmp_path: Path) -> None:
    result = cli("--executorch-source", tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"Error: {tmp_path} is not ExecuTorch's source")
