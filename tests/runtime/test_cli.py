"""`python -m runtime`: generating and building from the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import runtime.build
from quant.commands.cli import main as quant_main
from runtime.build import build, wheel_directory
from runtime.commands.cli import main
from runtime.commands.generate import summary
from runtime.errors import BuildError
from runtime.packaging import package as packaging
from runtime.packaging.wheel import fetch_wheel

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runtime", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


def test_help_waits_for_no_library() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "runtime"]
    for arguments in [["--help"], ["generate", "-h"], ["build", "--help"]]:
        result = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT)
        assert result.returncode == 0 and result.stdout.startswith("Usage: python -m runtime")
        imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
        assert "runtime" in imported and not imported & {"torch", "executorch", "numpy"}


def test_generate_speaks_on_stdout(cpp_build: Path, stories_pte: Path) -> None:
    result = run("generate", stories_pte, "-p", "Once", "-n", "5")
    assert result.returncode == 0, result.stderr
    assert result.stdout == " upon a time, there\n"
    assert result.stderr.startswith("2 prompt + 5 generated tokens, prefill ")
    assert result.stderr.endswith("tok/s, stopped: length\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["generate", "x.pte", "-p", "\udce9"], "-p"),
        (["generate", "x.pte", "-p", "x", "--regex", "\udce9"], "--regex"),
        (["tokenize", "x.pte", "\udce9"], "TEXT"),
        (["tokenize", __file__, "-"], "standard input"),
    ],
)
def test_a_text_that_is_not_utf_8(words: list[str], name: str) -> None:
    """Python has its bytes as halves of characters."""
    outcome = CliRunner().invoke(main, words, input=b"\xe9")
    assert outcome.exit_code == 2
    expected = f"Error: {name} is not UTF-8, at byte 1; convert the text, as with iconv.\n"
    assert outcome.stderr == expected


def test_the_options_of_an_answer(cpp_build: Path, stories_pte: Path) -> None:
    options = ["-p", "Once", "-n", "30", "--stop", ", t", "--stop", "never"]
    assert run("generate", stories_pte, *options).stdout == " upon a time\n"
    banned = ["--logit-bias", "403=-100", "--logit-bias", "5=0.5", "--repetition-penalty", "1.2"]
    more = ["--presence-penalty", "0.1", "--frequency-penalty", "-0.1", "--special-text"]
    assert run("generate", stories_pte, *options, *banned, *more).returncode == 0
    for wrong in ("5", "x=1", "5=x"):
        result = run("generate", stories_pte, "-p", "x", "--logit-bias", wrong)
        assert result.returncode == 2
        assert f"Invalid value for --logit-bias: '{wrong}' must be ID=VALUE" in result.stderr
    result = run("generate", stories_pte, "-p", "x", "--logit-bias", "5=101")
    assert result.returncode == 2
    assert "logit_bias of token 5 is 101.0, but must be from -100 to 100" in result.stderr


def test_generate_fails_with_a_sentence(cpp_build: Path, tmp_path: Path) -> None:
    result = run("generate", tmp_path, "-p", "Once")
    assert result.returncode == 2
    assert result.stderr.startswith(f"Error: {tmp_path} is a directory: ")
    assert result.stderr.endswith(f"; thimble-run {tmp_path} exports a model and runs it\n")


def test_bad_use_is_exit_2(tmp_path: Path) -> None:
    assert run("generate", tmp_path).returncode == 2
    assert run("generate", tmp_path, "-p", "x", "--threads", "0").returncode == 2
    assert run("fly").returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        "generate @ -p x",
        *(f"generate x.pte -p x {option} @" for option in ("--adapter", "--draft", "--choice")),
        *(f"generate x.pte -p x {option} @" for option in ("--regex", "--json-schema", "--stop")),
        "serve @",
        *(f"serve x.pte {option} @" for option in ("--name", "--adapter", "--cors", "--host")),
        "web @",
        "package --out @",
    ],
)
def test_an_empty_value_is_refused(command: str) -> None:
    words = ["" if word == "@" else word for word in command.split()]
    outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code == 2
    at = words.index("")
    name = words[at - 1] if words[at - 1].startswith("--") else "MODEL"
    assert re.search(rf"^Error: {name} is empty; (name|give) \S.*\.$", outcome.stderr, re.MULTILINE)


SECOND = "is given as a and as b, but a model runs with one"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (main, "generate x.pte -p x --adapter"),
        (main, "serve x.pte --adapter"),
        (quant_main, "eval x.pte --adapter"),
        (quant_main, "eval x.pte --against-adapter"),
    ],
)
def test_a_second_adapter_is_refused(command: click.Command, option: str) -> None:
    *words, name = option.split()
    outcome = CliRunner().invoke(command, [*words, name, "a", name, "b"])
    assert outcome.exit_code == 2
    assert f"Error: {name} {SECOND}; give it once.\n" in outcome.stderr


def test_a_wheel_needs_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.commands.build.package", lambda _: pytest.fail("built"))
    outcome = CliRunner().invoke(main, ["package", "--out", str(tmp_path / "none")])
    assert outcome.exit_code == 2
    assert outcome.stderr == (
        f"Error: {tmp_path}/none does not exist; name an existing, writable directory.\n"
    )


def test_help_is_not_cut() -> None:
    assert "..." not in CliRunner().invoke(main, ["--help"]).stdout.partition("Commands:")[2]


def test_an_answer_of_one_token_has_no_rate_of_decoding() -> None:
    stats: dict[str, str | int | float] = {
        "prompt_tokens": 2,
        "generated_tokens": 1,
        "prefill_tokens_per_s": 100.0,
    }
    stats |= {"decode_tokens_per_s": 0.0, "stop_reason": "length", "recomputed_tokens": 0}
    said = "2 prompt + 1 generated tokens, prefill 100.0 tok/s"
    assert summary(stats) == f"{said}, stopped: length"
    again = summary({**stats, "recomputed_tokens": 9})
    assert again == f"{said}, 9 computed again with the rotary table of its length, stopped: length"


def test_an_answer_that_is_cut_is_told(cpp_build: Path, stories_pte: Path) -> None:
    schema = json.dumps({"type": "string", "minLength": 100})
    options = ["generate", stories_pte, "-p", "Once", "--json-schema"]
    said = (
        "the answer is not complete: the 5 tokens of -n end it, and its constraint goes on behind "
        "them\n"
    )
    result = run(*options, schema, "-n", "5")
    assert result.returncode == 3 and result.stderr.endswith(said)
    result = run(*options, '{"const": 1}')
    assert result.returncode == 0 and "not complete" not in result.stderr


def test_a_second_build_does_nothing(cpp_build: Path) -> None:
    before = (cpp_build / "runner").stat().st_mtime_ns
    result = run("build")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{cpp_build}/runner is up to date\n" and result.stderr == ""
    assert (cpp_build / "runner").stat().st_mtime_ns == before
    result = run("build", "--only", "thimble_cpu")
    assert result.stdout == f"{cpp_build}/libthimble_cpu.so is up to date\n"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (["--sanitize"], "--sanitize is for the host: leave out --target aarch64"),
        (["--only", "bench"], "--only bench is for the host: leave out --all, --sanitize"),
    ],
    ids=["--sanitize", "--only"],
)
def test_options_of_the_host(option: list[str], told: str) -> None:
    result = run("build", *option, "--target", "aarch64")
    assert result.returncode == 2 and told in result.stderr


def test_an_arm_build_without_its_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtime.build, "BUILD_DIR", tmp_path)
    monkeypatch.setattr(runtime.build, "CROSS_COMPILER", "sh")
    with pytest.raises(BuildError) as caught:
        build("aarch64")
    assert str(caught.value) == (
        f"{wheel_directory()} is missing: thimble-runtime build --target aarch64 fetches it"
    )


def test_an_arm_build_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.build, "CROSS_COMPILER", "no-such-compiler")
    with pytest.raises(BuildError, match="no-such-compiler is not installed"):
        build("aarch64")


def test_a_wheel_that_pip_does_not_find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BuildError, match="cannot download executorch .* for manylinux_2_28_aarch"):
        fetch_wheel(tmp_path / "wheel")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("partial", [False, True])
def test_a_wheel_that_would_lack_something(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partial: bool
) -> None:
    """Says what, before it is written; so does not where that was asked for."""
    lacks = "PNG pictures (libpng-dev:arm64);signatures (libssl-dev:arm64)"
    (tmp_path / "CMakeCache.txt").write_text(f"A:BOOL=1\nTHIMBLE_WHEEL_LACKS:INTERNAL={lacks}\n")
    monkeypatch.setattr(packaging, "build", lambda *a, **named: runtime.build.Build(tmp_path, 1.0))
    monkeypatch.setattr(packaging, "fetch_wheel", lambda directory: False)
    with pytest.raises(BuildError) as caught:
        packaging.package(tmp_path, "aarch64", partial)
    told = "the wheel would lack PNG pictures (libpng-dev:arm64), signatures (libssl-dev:arm64): "
    assert str(caught.value).startswith("cmake failed" if partial else told)
    assert not list(tmp_path.glob("*.whl"))


def test_a_wheel_is_fetched_once(tmp_path: Path) -> None:
    assert fetch_wheel(tmp_path) is False


def test_a_tool_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(BuildError, match="cmake is not installed: pip install cmake ninja"):
        build()


def test_an_executorch_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match="the executorch package is not installed"):
        build()


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "cpp"
    source.mkdir()
    (source / "CMakeLists.txt").write_text("message(FATAL_ERROR no_such_thing)")
    (source / "CMakePresets.json").write_bytes(
        (runtime.build.SOURCE_DIR / "CMakePresets.json").read_bytes()
    )
    monkeypatch.setattr(runtime.build, "SOURCE_DIR", source)
    monkeypatch.setattr(runtime.build, "BUILD_DIR", tmp_path / "build")
    with pytest.raises(BuildError) as caught:
        build()
    assert str(caught.value).startswith("cmake failed with code 1:\n")
    assert "no_such_thing" in str(caught.value)
