"""`thimble-run`: a model's name, directory or file, and its answer."""

import ast
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.command_line import interruption
from exporter.file.pte import verify
from runtime.commands import cached_model
from runtime.commands.results import become_runner
from runtime.commands.run import run_command
from runtime.commands.tokenize import _shown

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "{% for message in messages %}<{{ message.content }}>{% endfor %}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run(
    cache: Path, *arguments: str | bytes | Path, given: str = "", folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "THIMBLE_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-P", "-m", "runtime", "run", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_signal_that_a_library_swallowed_starts_no_runner(
    cpp_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "_noted", signal.SIGINT)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match=str(128 + signal.SIGINT)):
        become_runner([])


def test_a_file_that_is_named_like_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-p.pte").touch()
    monkeypatch.chdir(tmp_path)
    started: list[list[str]] = []
    monkeypatch.setattr("runtime.commands.run.become_runner", started.append)
    CliRunner().invoke(run_command, ["./-p.pte", "--complete", "-n", "3"])
    assert started == [["./-p.pte", "-n", "3"]]


def test_a_cache_that_cannot_be_made(cpp_build: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run(tmp_path / "file", "llama3", "-p", "Once")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: cannot make '{tmp_path / 'file' / 'models'}' for ")
    assert result.stderr.count("\n") == 1


@pytest.mark.check
def test_a_checkpoint_is_exported_once(
    cpp_build: Path, one_layer_checkpoint: Path, cache: Path, tmp_path: Path
) -> None:
    model = (one_layer_checkpoint, "--quant", "none", "-n", "5")
    for name in ("exporter", "torch", "random"):  # a folder may have modules of anybody's
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)")
    first = run(cache, *model, "-p", "Once", folder=tmp_path)
    assert first.returncode == 0 and first.stdout, first.stderr
    (file,) = (cache / "models").glob("*.pte")
    assert first.stderr.startswith(f"Exporting {one_layer_checkpoint} with none, once, to {file}\n")
    assert f"wrote {file}" in first.stderr and first.stderr.count("runner: 2 prompt + 5 ") == 1
    text = tmp_path / "prompt.txt"
    text.write_text("Once\n")
    for prompt, given in (("-p", "-"), ("-f", "-"), ("-f", text)):
        again = run(cache, *model, "--quiet", prompt, given, given="Once\n")
        assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    without = run(cache, *model)
    assert (without.returncode, without.stdout) == (2, "")
    assert f"{one_layer_checkpoint} has no chat template and only continues" in without.stderr
    told = run(cache, *model, "-p", "Once", "--system", "Be short.")
    assert (told.returncode, told.stdout) == (2, "") and "put that text into -p" in told.stderr
    listed = run(cache, "--list-models").stdout
    assert f"exported: {file} (" in listed and "meta-llama/Llama-3.2-1B" in listed
    os.utime(one_layer_checkpoint / "config.json", ns=(1, 1))  # another version of the model
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATE)
    chat = run(cache, *model, "--quiet", "--chat-template", template, "-p", "Hi")
    assert chat.returncode == 0 and chat.stdout != first.stdout and chat.stderr == ""
    plain = run(cache, *model, "--quiet", "--chat-template", template, "--complete", "-p", "Once")
    assert plain.stdout == first.stdout
    assert len(list((cache / "models").glob("*.pte"))) == 2


def test_a_damaged_export_is_made_again(
    stories_pte: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("THIMBLE_CACHE", str(tmp_path))
    runs: list[list[str]] = []

    def make(command: list[str], output: object) -> int:
        runs.append(command)
        shutil.copy(stories_pte, command[command.index("--out") + 1])
        return 0

    monkeypatch.setattr(cached_model, "_run", make)
    sound = stories_pte.read_bytes()
    weights = next(item for item in verify(stories_pte, False) if item.name == "weights")
    flipped = bytearray(sound)
    flipped[weights.offset] ^= 1
    file = cached_model.exported("llama3", "rtn4", None, quiet=True)
    for damaged in (b"", sound[:-100], flipped):
        file.write_bytes(damaged)
        count = len(runs)
        assert cached_model.exported("llama3", "rtn4", None, quiet=True) == file
        assert len(runs) == count + 1 and file.read_bytes() == sound
        said = capsys.readouterr().err
        assert said.startswith(f"{file} ") and said.endswith(": exporting llama3 again\n")
        assert said.count("\n") == 1
    assert cached_model.exported("llama3", "rtn4", None, quiet=True) == file
    assert len(runs) == 4 and capsys.readouterr().err == ""


def test_a_large_export_is_checked_once(
    stories_pte: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THIMBLE_CACHE", str(tmp_path))
    monkeypatch.setattr(cached_model, "_run", lambda *_: pytest.fail("it is there"))
    file = cached_model.models_directory() / cached_model._file_name("llama3", "rtn4", None)
    file.parent.mkdir()
    shutil.copy(stories_pte, file)
    reads: list[Path] = []

    def count(path: Path, everything: bool) -> list[Any]:
        reads.append(path)
        return verify(path, everything)

    monkeypatch.setattr("exporter.file.pte.verify", count)
    for touched in (1, 1, 2):
        os.utime(file, ns=(touched, touched))
        assert cached_model.exported("llama3", "rtn4", None, quiet=True) == file
    assert reads == [file, file]  # again only where the file is another
    file.with_suffix(".checked").write_bytes(b"\xff")
    assert cached_model.exported("llama3", "rtn4", None, quiet=True) == file
    assert reads == [file] * 3


def test_a_file_with_a_template_chats(cpp_build: Path, chat_pte: Path, cache: Path) -> None:
    options = ("-n", "6", "--temperature", "0")
    message = run(cache, chat_pte, *options, "--quiet", "-p", "Hello")
    assert message.returncode == 0 and message.stderr == ""
    lines = run(cache, chat_pte, *options, given="Hello\n")
    assert lines.returncode == 0 and lines.stdout == message.stdout
    text = run(cache, chat_pte, *options, "--quiet", "--complete", "-p", "Hello")
    assert text.stdout != message.stdout


@pytest.mark.check
def test_a_program_of_tensors_cannot_chat(cpp_build: Path, traps_pte: Path, cache: Path) -> None:
    for more in ((), ("-p", "Hi")):
        result = run(cache, traps_pte, *more)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"runner: {traps_pte} takes tensors, not text: run it with")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Error: Name a model first"),
        (["-n", "5"], "Error: Name a model first, such as llama3; see --list-models."),
        (["x.pte", "-p", "a", "-f", "b"], "Error: -p and -f are two prompts; use only one."),
        (["x.pte", "--quant", "rtn4"], "Error: --quant has no effect on a .pte; leave it out."),
        (["x.pte"], "Error: there is no file x.pte: name a .pte file"),
        (["llama3", "--quant", "rtn3", "--quiet"], "Error: scheme 'rtn3' is not supported"),
        (["llama3", "-f", "no.txt"], "runner: -f: cannot read no.txt: No such file or directory"),
        (["llama3", "-p", "a", "--temperature", "-1"], "runner: --temperature is '-1', but must"),
        (["llama3", "--nosuch"], "runner: '--nosuch' is not an option"),
        (["llama3", "-p", "a", "word"], "runner: 'word' belongs to no option, and the model"),
        (["llama3", "--regex", "("], "runner: the regular expression '(' is refused at offset 0"),
        (["llama3", "--json-schema", "{"], "runner: the JSON schema cannot be read: "),
        (["llama3", "--grammar", "x"], "runner: the grammar is not valid at line 1, column 2: "),
        (["llama3", "-p", "a", "--draft=no.pte"], "runner: there is no file no.pte: name a .pte"),
        (["llama3", "-p", "a", "--image", "no.png"], "runner: cannot read no.png: No such file"),
        (["llama3", "--audio", "no.wav"], "runner: cannot read no.wav: No such file or directory"),
        (["llama3", "--adapter", "a"], "Error: --adapter chooses one of those in a .pte: write"),
        (["llama3", "-p", b"\xff"], "runner: -p is not UTF-8, at byte 1: convert the text"),
        (["mod.py"], "Error: mod.py is a Python file; name the function in it that makes the"),
        (["nosuch"], "Error: There is no model 'nosuch'"),
        (["llama3", "--chat-template", "no.j"], "Error: The chat template no.j cannot be read"),
    ],
)
def test_what_is_refused(
    cpp_build: Path, cache: Path, arguments: list[str | bytes], sentence: str
) -> None:
    result = run(cache, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["run llama3 -p -", "run llama3 -f -", "tokenize x.pte -"])
def test_standard_input_that_is_closed(cpp_build: Path, words: str) -> None:
    command = [sys.executable, "-m", "runtime", *words.split()]
    told = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("Error: Standard input is closed; pipe a text into it")


def test_tokens_of_a_text(cpp_build: Path, stories_pte: Path) -> None:
    command = [sys.executable, "-m", "runtime", "tokenize", str(stories_pte)]

    def tokens(*arguments: str, given: str = "") -> str:
        told = subprocess.run(
            [*command, *arguments], cwd=ROOT, input=given, capture_output=True, text=True
        )
        assert (told.returncode, told.stderr) == (0, "")
        return told.stdout

    ids = tokens("Once upon", "--ids").split()
    lines = [line.split("\t") for line in tokens("Once upon").splitlines()]
    assert [line[0] for line in lines] == ids == tokens("-", "--ids", given="Once upon").split()
    assert "".join(ast.literal_eval(line[1]) for line in lines[1:]) == " Once upon"
    assert tokens("Once upon", "--ids", "--no-bos").split() == ids[1:]


def test_a_byte_of_a_character_is_no_text() -> None:
    assert [_shown(data) for data in (b"\xc3", b"\\xc3", "é".encode())] == [
        r"b'\xc3'",
        r"'\\xc3'",
        "'é'",
    ]
