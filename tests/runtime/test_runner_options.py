"""The runner's command line: what it takes, what it refuses, and with which sentence."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture
def runner(cpp_build: Path) -> Path:
    return cpp_build / "runner"


def run(runner: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([runner, *arguments], capture_output=True, text=True)


def test_help_goes_to_stdout(runner: Path) -> None:
    for option in ["--help", "-h"]:
        result = run(runner, option)
        assert result.returncode == 0 and result.stderr == ""
        assert result.stdout.startswith("Usage: thimble-runner MODEL.pte -p TEXT [options]\n")
        assert all(len(line) <= 100 for line in result.stdout.splitlines())


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_what_cannot_be_printed_is_told(runner: Path, option: str) -> None:
    for where, reason in (
        (">/dev/full", "No space left on device"),
        (">&-", "Bad file descriptor"),
    ):
        command = ["bash", "-c", f'"$@" {where}', "bash", runner, option]
        told = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        assert (told.returncode, told.stderr) == (
            1,
            f"runner: cannot write to standard output: {reason}\n",
        )


def test_the_version_is_the_packages(runner: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    executorch = re.escape(importlib.metadata.version("executorch"))
    result = run(runner, "--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.fullmatch(
        rf"runner {re.escape(version)}\n"
        rf"built with ExecuTorch {executorch}: the CPU delegate, XNNPACK, ETDump\n"
        r"reads programs of the CPU delegate up to version \d+, sessions of versions 1 to 4\n",
        result.stdout,
    )
    assert run(runner, "model.pte", "--version", "--chat").stdout == result.stdout


NUMBERS = [
    (["-n", "0"], "-n is '0', but must be a whole number from 1 to 2147483647"),
    (["-n", "x"], "-n is 'x', but must be a whole number from 1 to 2147483647"),
    (["--tokens=5.5"], "--tokens is '5.5', but must be a whole number from 1 to 2147483647"),
    (["--temperature", "-1"], "--temperature is '-1', but must be a number from 0 to 100"),
    (["--temperature", "nan"], "--temperature is 'nan', but must be a number from 0 to 100"),
    (["--temperature", "1x"], "--temperature is '1x', but must be a number from 0 to 100"),
    (["--temperature", ""], "--temperature is '', but must be a number from 0 to 100"),
    (["--top-k", "-1"], "--top-k is '-1', but must be a whole number from 0 to 2147483647"),
    (["--top-p", "1.1"], "--top-p is '1.1', but must be a number from 0 to 1"),
    (["--min-p", "2"], "--min-p is '2', but must be a number from 0 to 1"),
    (
        ["--repetition-penalty", "0"],
        "--repetition-penalty is '0', but must be a number from 0.01 to 100",
    ),
    (["--presence-penalty=-3"], "--presence-penalty is '-3', but must be a number from -2 to 2"),
    (["--frequency-penalty", "x"], "--frequency-penalty is 'x', but must be a number from -2 to 2"),
    (["--logit-bias", "5"], "--logit-bias is '5', but must be ID=VALUE"),
    (["--logit-bias", "5=200"], "--logit-bias is '200', but must be a number from -100 to 100"),
    (
        ["--logit-bias=-5=2"],
        "--logit-bias is '-5', but must be a whole number from 0 to 2147483647",
    ),
    (["--stop", ""], "--stop needs a value"),
    (["--logprobs", "21"], "--logprobs is '21', but must be a whole number from 0 to 20"),
    (["--threads", "0"], "--threads is '0', but must be a whole number from 1 to 256"),
    (["--threads", "257"], "--threads is '257', but must be a whole number from 1 to 256"),
    (
        ["--kv-cache", "int2"],
        "--kv-cache is 'int2', but must be default, float16, float32, int8, int4 or int8-int4",
    ),
    (
        ["--seed", "18446744073709551616"],
        "--seed is '18446744073709551616', but must be a whole number from 0 to "
        "18446744073709551615",
    ),
]
USES = [
    ([], "no model was given: pass a .pte file: thimble-runner --help lists the options"),
    (
        ["model.pte"],
        "no prompt was given: pass -p TEXT, which may be empty, -f FILE, --chat, or, to a program "
        "of tensors, --input and --output: thimble-runner --help lists the options",
    ),
    (
        ["model.pte", "-p", "Once", "--input", "x.npy"],
        "--input is for a program of tensors, and --prompt for a model of language: leave one of "
        "them out",
    ),
    (
        ["model.pte", "-p", "Once", "--schema-unsupported", "relax"],
        "--schema-unsupported has no effect without --json-schema: add a schema, or leave it out",
    ),
    (
        ["model.pte", "-p", "Once", "-n", "2", "--method", "forward"],
        "--method is for a program of tensors, and --prompt for a model of language: leave one of "
        "them out",
    ),
    (
        ["model.pte", "--method", "forward", "-n", "2"],
        "--tokens has no effect with --method, which is for a program of tensors: leave one of "
        "them out",
    ),
    *(
        (["model.pte", *prompts], f"{prompts[2]} is a second prompt: pass one, with -p or -f")
        for prompts in (
            ["-p", "", "-p", "Twice"],
            ["-p", "Once", "-f", "no.txt"],
            ["-f", __file__, "--prompt", "Once"],
        )
    ),
    (["model.pte", "--output", "=y.npy"], "--output is '=y.npy', but must be FILE or NAME=FILE"),
    (
        ["-p", "Once", "--"],
        "no model was given: pass a .pte file: thimble-runner --help lists the options",
    ),
    (["model.pte", "--prompt"], "--prompt needs a value: thimble-runner --help lists the options"),
    (["model.pte", "--json", ""], "--json needs a value"),
    (["model.pte", "--session="], "--session needs a value"),
    *(
        (
            ["model.pte", "-p", "x", option, value],
            f"{option} is -, which is not a file: name a file, such as /dev/stderr",
        )
        for option, value in (
            *(("--json", "-"), ("--session", "-"), ("--etdump", "-")),
            *(("--output", "-"), ("--output", "y=-")),
        )
    ),
    *(
        (
            ["model.pte", option, b"caf\xe9"],
            f"{option} is not UTF-8, at byte 4: convert the text, as with iconv",
        )
        for option in ("-p", "--prompt", "--stop", "--choice", "--system")
    ),
    (
        ["model.pte", "-p", "x", "--adapter", "a", "--adapter", "b"],
        "--adapter is given as a and as b, but a model runs with one: give it once",
    ),
    (["model.pte", "--huge-pages=2"], "--huge-pages takes no value, but was given '2'"),
    (["model.pte", "--fast"], "'--fast' is not an option: thimble-runner --help lists the options"),
    (["model.pte", "-x"], "'-x' is not an option: thimble-runner --help lists the options"),
    (["model.pte", "--chat=yes"], "--chat takes no value, but was given 'yes'"),
    (
        ["model.pte", "-p", "Once", "upon"],
        "'upon' belongs to no option, and the model is named already: pass a prompt with -p, in "
        "quotes if it has spaces",
    ),
    *(
        (arguments, "--timestamps is 'words', but must be segment or word")
        for arguments in (
            ["model.pte", "--audio", "x.wav", "--timestamps", "words"],
            ["--audio", "x.wav", "--timestamps", "words", "model.pte"],
        )
    ),
    (
        ["model.pte", "-p", "x", "--system", "y"],
        "--system has no effect without --chat: add --chat, or put the text into -p",
    ),
]


@pytest.mark.parametrize("before", [["-p", "Once", "-n", "2"], ["--chat"]])
def test_a_model_may_follow_the_end_of_the_options(
    runner: Path, stories_pte: Path, tmp_path: Path, before: list[str]
) -> None:
    (tmp_path / "-model.pte").symlink_to(stories_pte)
    for model in (str(stories_pte), "-model.pte"):
        result = subprocess.run(
            [runner, *before, "--", model], cwd=tmp_path, capture_output=True, text=True
        )
        if "--chat" in before:  # the model is loaded, and has no template
            assert result.returncode == 2
            assert result.stderr.startswith(f"runner: {model} has no chat template: ")
        else:
            assert result.returncode == 0 and result.stdout
    refused = run(runner, *before, "--", "model.pte", "-n")
    assert refused.returncode == 2
    assert refused.stderr.startswith("runner: '-n' belongs to no option, and the model")


def test_more_threads_than_run_at_once_are_told(runner: Path) -> None:
    usable = len(os.sched_getaffinity(0))
    for threads in {usable, min(usable + 1, 256)}:
        told = run(runner, "no.pte", "-p", "x", "--threads", str(threads)).stderr
        note = f"runner: --threads {threads} is more than the {usable} that run at once here: "
        assert told.startswith(note) == (threads > usable)


@pytest.mark.parametrize(("arguments", "sentence"), [*NUMBERS, *USES])
def test_bad_use_is_refused(runner: Path, arguments: list[str], sentence: str) -> None:
    result = run(runner, *arguments)
    assert result.returncode == 2
    assert result.stderr == f"runner: {sentence}\n"
    assert result.stdout == ""


def test_what_has_no_effect_is_told(cpp_build: Path, stories_pte: Path) -> None:
    """By the runner and by the command of Python."""
    options = ["-p", "Once", "--tokens", "3", "--top-k", "5", "--seed", "4", "--dry-base", "2"]
    commands = [cpp_build / "runner"], [sys.executable, "-m", "runtime", "generate"]
    for command in commands:
        run = partial(subprocess.run, capture_output=True, text=True, check=True)
        greedy = run([*command, stories_pte, *options]).stderr
        assert "most likely token is taken, without effect of --seed, --top-k\n" in greedy
        assert "--dry-multiplier is 0, without effect of --dry-base\n" in greedy
        effective = [*options, "--temperature=1", "--dry-multiplier=1"]
        assert "without effect" not in run([*command, stories_pte, *effective]).stderr


def test_a_file_that_is_named_twice(runner: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pte"
    model.write_bytes(b"as it was")
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "new_link").symlink_to(tmp_path / "new")
    for more in (
        ["--json", str(model)],
        ["--etdump", f"{tmp_path}/../{tmp_path.name}/model.pte"],
        ["--session", str(tmp_path / "link")],
        ["--etdump", str(tmp_path / "new"), "--json", str(tmp_path / "new")],
        ["--etdump", str(tmp_path / "new"), "--json", str(tmp_path / "new_link")],
    ):
        result = run(runner, str(model), "-p", "Once", *more)
        assert result.returncode == 2
        assert result.stderr == (
            f"runner: {more[-1]} is named twice: give each output a file of its own, which is "
            "no input\n"
        )
    assert model.read_bytes() == b"as it was" and not (tmp_path / "new").exists()
