"""Wrong arguments are refused, and help is printed, before any large library is imported."""

import dataclasses
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from support.llama_config import LLAMA

from delegates import DELEGATES

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("devtools", "exporter", "quant", "runtime")
LARGE = ("torch", "executorch", "torchao", "transformers", "pandas", "starlette")

GGUF = b"GGUF\3\0\0\0"

# Runs each command that it reads in a process of its own, which has imported what all of them do;
# then says the exit code and what was imported.
SERVER = f"""
import json, os, runpy, sys
import devtools.commands.cli, exporter.commands.cli, quant.commands.cli, runtime.commands
for line in sys.stdin:
    directory, *sys.argv = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(directory)
        os.environ["HOME"] = directory
        for number, name in enumerate((os.devnull, "output", "errors")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
        try:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)
        except SystemExit as end:
            print("code", end.code)
        print("imported", *[name for name in {LARGE!r} if name in sys.modules], flush=True)
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
"""
Run = Callable[[Path, str], tuple[str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Both streams of a command that is run in a directory."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=tmp_path_factory.mktemp("server"),
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None

    def ask(directory: Path, command: str) -> tuple[str, str]:
        print(json.dumps([str(directory), *command.split()]), file=server.stdin, flush=True)
        assert server.stdout is not None and server.stdout.readline() == "\n"
        files = [directory / name for name in ("output", "errors")]
        output, errors = (file.read_text(encoding="utf-8") for file in files)
        return output, errors

    yield ask
    server.stdin.close()
    server.wait()
    server.stdout.close()


@pytest.mark.parametrize(
    "command",
    [
        f"{package} {option}"
        for package in ("exporter", "quant", "quant eval", "quant run", "devtools", "devtools diff")
        for option in ("--help", "--version")
        if option == "--help" or " " not in package
    ],
)
def test_help_and_versions(run: Run, tmp_path: Path, command: str) -> None:
    output, errors = run(tmp_path, command)
    assert output.endswith("code 0\nimported\n") and errors == ""


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("exporter nosuch --out x.pte", "There is no model 'nosuch'"),
        ("exporter --checkpoint no/such/one --out x.pte", "There is no directory no/such/one"),
        ("exporter llama3 --out no/x.pte", "no/x.pte cannot be written"),
        ("exporter llama3 --out x.pte --quant foo", "scheme 'foo' is not supported"),
        ("exporter llama3 --out x.pte --group-size 33", "group size 33 is not supported"),
        ("exporter llama3 --out x.pte --method drift=x", "method drift='x' is not supported"),
        ("exporter llama3 --out x.pte --delegate npu", "delegate 'npu' is not known"),
        ("exporter llama3 --out x.pte --device tpu", "--device 'tpu' is not supported"),
        ("exporter llama3 --out x.pte --max-size x", "--max-size 'x' is not a valid size"),
        ("exporter llama3 --out x.pte --max-memory x", "--max-memory 'x' is not a valid size"),
        ("exporter llama3 --out x.pte --max-memory 300MB", "--max-memory is 300.0 MB, but PyTorch"),
        ("exporter llama3 --out x.GGUF", "--out x.GGUF has the ending of another kind of file"),
        ("exporter llama3 --out x.etrecord", "--out x.etrecord has the ending of another kind"),
        ("exporter llama3 --out x.pte --etrecord y.pte", "--etrecord y.pte has the ending of anot"),
        ("exporter llama3 --out x.pte --calibration no.txt", "The calibration text no.txt cannot"),
        ("exporter llama3 --out x.pte --etrecord x.pte", "x.pte is both --out and --etrecord"),
        ("exporter llama3 --out x.pte --bits -1", "--bits -1 is not a valid budget"),
        ("exporter llama3 --out x.pte --bits 99", "--bits 99 is not a valid budget"),
        ("exporter llama3 --out x.pte --quant none --bits 5", "a budget spreads 2 to 8 bits, and"),
        ("exporter llama3 --out x.pte --max-context-len 0", "--max-context-len 0 is not possible"),
        ("exporter llama3 --explain --max-seq-len 0", "--max-seq-len 0 is not possible"),
        (
            "exporter llama3 --out x.pte --max-context-len 9999",
            "--max-context-len 9999 is not poss",
        ),
        ("exporter llama3 --out x.pte --max-seq-len 9999", "--max-seq-len 9999 is not possible"),
        ("exporter smollm2-135m --explain --max-context-len 9999", "--max-context-len 9999 is not"),
        (
            "exporter llama3 --out x.pte --tokenizer no.json",
            "Invalid value for '--tokenizer': Path",
        ),
        ("exporter some/model --out x.pte", "There is no directory 'some/model', and the hub"),
        ("exporter some/m.gguf --out x.pte", "some/m.gguf is cut short or damaged"),
        ("exporter --checkpoint some/m.gguf --explain", "some/m.gguf is cut short or damaged"),
        ("exporter no.py:make --out x.pte", "no.py is not a file; name a Python file, as in no.py"),
        ("exporter no.py:make --explain", "no.py is not a file; name a Python file, as in no.py"),
        ("exporter mod.py --out x.pte", "mod.py is a Python file; name the function in it that"),
        ("exporter . --out x.pte", ". has no config.json"),
        ("exporter llama3 --explain --checkpoint .", ". has no config.json"),
        ("exporter --checkpoint /dev/null --out x.pte", "/dev/null is a file; give a .gguf file"),
        ("exporter pipe --out x.pte", "pipe is a file; give a .gguf file"),
        ("exporter pipe.gguf --out x.pte", "pipe.gguf is a pipe or a device; name a file"),
        ("exporter llama3 --out x.pte --calibration pipe", "The calibration text pipe is a pipe"),
        (
            "exporter llama3 --out x.pte --calibration /dev/null",
            "The calibration text /dev/null is",
        ),
        (
            "exporter https://hf.co/a/b/tree/main --out x.pte",
            "https://hf.co/a/b/tree/main is an ad",
        ),
        (
            "exporter --checkpoint huggingface.co/a/b --out x.pte",
            "huggingface.co/a/b is an address",
        ),
        ("exporter llama3 --out x.pte --adapter no/such/x", "There is no directory no/such/x"),
        ("exporter llama3 --out x.pte --adapter a=.", ". has no adapter_config.json"),
        ("exporter llama3 --out x.pte --adapter a=b --adapter a=b", "--adapter a= is repeated"),
        ("exporter llama3 --out x.pte --delegate qnn", "Qualcomm's AI Engine Direct SDK is not"),
        ("exporter llama3 --explain --quant foo", "scheme 'foo' is not supported"),
        ("exporter nosuch --explain", "There is no model 'nosuch'"),
        ("exporter --inspect no.pte", "there is no file no.pte: name a .pte"),
        ("quant run nosuch", "There is no model 'nosuch'"),
        ("quant run llama3 --quant foo", "scheme 'foo' is not supported"),
        ("quant run llama3 --quant none", "--quant none does not quantize anything"),
        ("quant eval llama3", "no text or tasks were given"),
        ("quant eval llama3 --text no.txt", "the text no.txt cannot be read"),
        ("quant eval no.pte --tasks arc_easy", "There is no file no.pte"),
        ("quant eval nosuch --tasks arc_easy", "There is no model 'nosuch'"),
        ("quant cache --prune x", "--prune 'x' is not a valid size"),
        ("quant compare nosuch", "There is no model 'nosuch'"),
        ("quant compare --only foo", "--only 'foo' is not a row"),
        ("quant compare --group-size 33", "group size 33 is not supported"),
        ("devtools bench no.pte", "there is no file no.pte: name a .pte"),
        ("devtools compare no.pte --checkpoint llama3", "there is no file no.pte: name a .pte"),
        ("devtools inspect no.etdp --etrecord no.etrecord", "no.etdp"),
        ("devtools report no.etdp --etrecord no.etrecord --out x.html", "no.etdp"),
    ],
)
def test_wrong_arguments(run: Run, tmp_path: Path, command: str, sentence: str) -> None:
    for pipe in ("pipe", "pipe.gguf"):
        os.mkfifo(tmp_path / pipe)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "m.gguf").write_bytes(GGUF)
    output, errors = run(tmp_path, command)
    assert output == "code 2\nimported\n"
    assert f"Error: {sentence}" in errors
    assert not list(tmp_path.glob("*.pte"))


@pytest.mark.parametrize(
    ("command", "content", "sentence"),
    [
        ("exporter x.gguf --out x.pte", b"", "x.gguf is empty (0 bytes)"),
        ("exporter x.gguf --out x.pte", b"GGUF\t\0\0\0", "x.gguf has GGUF version 9"),
        ("exporter x.gguf --out x.pte", GGUF + b"\xff" * 16, "x.gguf is cut short or damaged"),
        ("exporter llama3 --checkpoint x.gguf --explain", GGUF, "x.gguf is cut short or damaged"),
        ("exporter llama3 --quant rtn4 --imatrix x.gguf --out x.pte", GGUF, "x.gguf is cut short"),
        ("quant run llama3 --quant rtn4 --imatrix x.gguf", b"\0" * 9, "x.gguf is no importance m"),
        ("runtime run x.gguf -p x", GGUF + b"\1" * 40, "x.gguf is cut short or damaged"),
        ("exporter llama3 --checkpoint x.gguf --explain", b"<ht", "x.gguf is not a GGUF file"),
        ("runtime run x.gguf -p x", b"<html>", "x.gguf is not a GGUF file"),
        ("runtime run . -p x", b"", ". has no config.json"),
        ("runtime run x.gguf --quant rtn4", b"\0\0\0\0ET12", "--quant has no effect on a .pte"),
        ("exporter x.gguf --out x.pte", b"\0\0\0\0ET12", "x.gguf is an exported program, not a"),
        (
            "exporter llama3 --out x.pte --calibration x.gguf",
            b" \n",
            "The calibration text x.gguf i",
        ),
        (
            "exporter llama3 --out x.pte --tokenizer x.gguf",
            b"\xff\xfe",
            "x.gguf is not a known kind",
        ),
        ("runtime serve no.gguf", b"", "there is no file no.gguf: name a .pte"),
        ("runtime serve x.gguf --max-memory x", b"", "--max-memory 'x' is not a valid size"),
    ],
)
def test_wrong_files(run: Run, tmp_path: Path, command: str, content: bytes, sentence: str) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    output, errors = run(tmp_path, command)
    assert output == "code 2\nimported\n"
    assert errors.partition(": ")[2].startswith(sentence) and errors.count("\n") == 1


@pytest.mark.parametrize("command", ["runtime serve", "runtime build -x", "devtools no"])
def test_errors_of_usage_are_one_line(run: Run, tmp_path: Path, command: str) -> None:
    output, errors = run(tmp_path, command)
    assert output == "code 2\nimported\n"
    assert errors.startswith("Error: ") and errors.count("\n") == 1


def test_delegates_are_listed(run: Run, tmp_path: Path) -> None:
    output, errors = run(tmp_path, "exporter --list-delegates")
    listed, _, _ = output.rpartition("code ")
    assert all(f" {name} " in listed for name in DELEGATES) and errors == ""
    assert not {"torch", "torchao", "pandas"} & {*output.rpartition("imported")[2].split()}


@pytest.mark.parametrize("model_type", ["llama", "bert"])
def test_wrong_arguments_beside_a_directory(run: Run, tmp_path: Path, model_type: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(f'{{"model_type": "{model_type}"}}')
    output, errors = run(tmp_path, "exporter ./model --out x.pte --quant foo")
    assert output == "code 2\nimported\n"
    assert "Error: scheme 'foo' is not supported" in errors


@pytest.mark.parametrize(
    ("fields", "options", "sentence"),
    [
        (LLAMA, "--max-context-len 9999", "--max-context-len 9999 is not possible"),
        (LLAMA, "--max-seq-len 9999", "--max-seq-len 9999 is not possible"),
        ({**LLAMA, "head_dim": 7}, "", "model/config.json: head_dim 7 is odd"),
        ({"model_type": "nosuch"}, "", "model/config.json: model_type 'nosuch' is not supported"),
        ({**LLAMA, "model_type": "cohere"}, "--max-seq-len 0", "--max-seq-len 0 is not possible"),
    ],
)
def test_a_config_is_read_first(
    run: Run, tmp_path: Path, fields: dict[str, Any], options: str, sentence: str
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(fields))
    (tmp_path / "model" / "model.safetensors").touch()
    output, errors = run(tmp_path, f"exporter ./model --out x.pte {options}")
    assert output == "code 2\nimported\n"
    assert f"Error: {sentence}" in errors


@pytest.mark.parametrize("indexed", [False, True])
def test_headers_of_weights_are_read_first(run: Run, tmp_path: Path, indexed: bool) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(LLAMA))
    file = "model-00001-of-00001.safetensors" if indexed else "model.safetensors"
    (model / file).write_bytes((2).to_bytes(8, "little") + b"no")
    if indexed:
        index = {"weight_map": {"model.norm.weight": file}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
    output, errors = run(tmp_path, "exporter ./model --out x.pte")
    assert output == "code 2\nimported\n"
    assert f"Error: model/{file} is not a safetensors file (its header is not JSON); " in errors


def test_families_need_no_large_library() -> None:
    script = f"""
import sys
from exporter.models.families import family_names, get_family
for name in family_names():
    get_family(name)
print(*[name for name in {LARGE!r} if name in sys.modules])
"""
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "\n"


MOST_ARGUMENTS = 10  # more are a request


def commands_of(package: str) -> list[click.Command]:
    """The command of a package and those below it."""
    main = importlib.import_module(f"{package}.commands.cli").main
    return [main, *getattr(main, "commands", {}).values()]


@pytest.mark.parametrize("package", PACKAGES)
def test_help_is_in_whole_lines(package: str) -> None:
    """Click joins the lines of a paragraph with what indents them."""
    for command in commands_of(package):
        text = inspect.cleandoc(command.help or "")
        assert not re.search(r"^ ", text, re.MULTILINE), command.name


@pytest.mark.parametrize("package", PACKAGES)
def test_requests_have_the_parameters(package: str) -> None:
    for command in commands_of(package):
        function = inspect.unwrap(command.callback or test_requests_have_the_parameters)
        hints = typing.get_type_hints(function)
        kinds = [hint for hint in hints.values() if dataclasses.is_dataclass(hint)]
        if kinds:
            names = {one.name for one in command.params if one.expose_value}
            assert {field.name for field in dataclasses.fields(kinds[0])} == names, command.name
        assert len(inspect.signature(function).parameters) <= MOST_ARGUMENTS, command.name
