"""Programs of tensors: the runner's .npy files, Python's Program, and the profile of a run."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.module_traps import inputs

from devtools.profile.load import load_profile
from devtools.profile.profile_types import Phase
from runtime import Embedder, Program, Runner, RunnerError, Transcriber
from runtime.binding.c_arguments import utf8_of
from runtime.program import _array

NAMES = ("odd", "whole", "halves", "rows", "far", "picture")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The inputs as .npy files, the picture in Fortran's order."""
    found = {}
    for name, tensor in zip(NAMES, inputs(batch=2, seed=4), strict=True):
        array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        found[name] = tmp_path / f"{name}.npy"
        np.save(found[name], np.asfortranarray(array) if name == "picture" else array)
    return found


def run(build: Path, pte: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([build / "runner", pte, *arguments], capture_output=True, text=True)


def given(files: dict[str, Path], **changed: Path) -> list[str]:
    return [f"--input={name}={path}" for name, path in (files | changed).items()]


@pytest.mark.check
def test_files_in_and_out_are_those_of_python(
    cpp_build: Path, traps_pte: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    outputs = {name: tmp_path / f"out_{name}.npy" for name in ("turned", "cumsum", "steps")}
    statistics, etdump = tmp_path / "run.json", tmp_path / "run.etdp"
    result = run(
        cpp_build,
        traps_pte,
        *[f"--input={path}" for path in files.values()],  # in order
        *[f"--output={name}={path}" for name, path in outputs.items()],
        f"--json={statistics}",
        f"--etdump={etdump}",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    with Program(traps_pte, threads=1) as program:
        assert [spec.name for spec in program.inputs] == list(NAMES)
        want: Any = program(**{name: np.load(path) for name, path in files.items()})
    for name, path in outputs.items():
        got = np.load(path)
        assert got.dtype == want[name].dtype and got.shape == want[name].shape
        np.testing.assert_array_equal(got, want[name])
    assert json.loads(statistics.read_text())["run_s"] > 0 and "ran in" in result.stderr
    given = [f"--input={path}" for path in files.values()]
    assert run(cpp_build, traps_pte, *given, "--quiet").stderr == ""

    profile = load_profile(etdump, traps_pte.with_suffix(".etrecord"))
    assert [call.phase for call in profile.calls] == [Phase.RUN]
    # XNNPACK leaves out some reshapes, so that its own numbers do not tell which ones ran.
    unknown = {each.name.partition(" #")[0] for each in profile.coverage.unresolved}
    assert unknown <= {"Static Reshape (NC)"} and profile.coverage.events > 60
    lines = {line.file for call in profile.calls for e in call.events for line in e.lines}
    assert {Path(file).name for file in lines} == {"module_traps.py"}


@pytest.mark.check
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--input=far=no.npy"], "cannot read no.npy: No such file or directory: name a .npy file"),
        (["--input=far={text}"], "{text} is not a .npy file: write one with numpy.save()"),
        (
            ["--input=far={cut}"],
            "{cut} is cut or damaged: it has 1020 bytes of elements, but "
            "(2, 128) of float32 takes 1024: write it again",
        ),
        (
            ["--input=far={text_array}"],
            "{text_array} has elements of type '<U1', but must have one of float32, float64, "
            "float16, bfloat16, int64, int32, int16, int8, uint8, bool, little endian: convert it "
            "with astype()",
        ),
        (
            ["--input=far={doubles}"],
            "the input far is float64, but must be float32: convert it first",
        ),
        (
            ["--input=nothing={far}"],
            "there is no input nothing: the program takes odd, whole, halves, rows, far, picture",
        ),
        (
            ["--input=far={far}", "--output=nothing=y.npy"],
            "there is no output nothing: the program returns exp, steps, memory, ",
        ),
        (
            ["-p", "Once"],
            "{pte} takes tensors, not text: run it with --input FILE.npy and --output "
            "FILE.npy, or as a Program",
        ),
    ],
)
def test_what_the_runner_refuses(
    cpp_build: Path,
    traps_pte: Path,
    files: dict[str, Path],
    tmp_path: Path,
    arguments: list[str],
    sentence: str,
) -> None:
    names = {
        name: str(tmp_path / f"{name}.npy") for name in ("text", "cut", "doubles", "text_array")
    }
    Path(names["text"]).write_text("not an array, but some text")
    Path(names["cut"]).write_bytes(files["far"].read_bytes()[:-4])
    np.save(names["doubles"], np.zeros((2, 128)))
    np.save(names["text_array"], np.array(["a"]))
    names |= {"far": str(files["far"]), "pte": str(traps_pte)}
    rest = {name: path for name, path in files.items() if name != "far"}
    before = [] if arguments[0] == "-p" else given(rest)
    result = run(cpp_build, traps_pte, *before, *(each.format(**names) for each in arguments))
    assert result.returncode == 2
    assert result.stderr.startswith(f"runner: {sentence.format(**names)}")
    assert result.stderr.count("\n") == 1


@pytest.mark.check
def test_a_program_in_python(traps_pte: Path, stories_pte: Path, tmp_path: Path) -> None:
    program = Program(traps_pte)
    arrays = [(x.float() if x.dtype == torch.bfloat16 else x).numpy() for x in inputs(1, seed=5)]
    size = program.inputs[-1].sizes[0]
    assert (size.least, size.most, size.symbol) == (1, 5, "batch")
    types = {output.name: output.type for output in program.outputs}
    assert types["cumsum"] == "bfloat16" and types["large"] == "int64"
    with pytest.raises(RunnerError, match="the input whole is missing"):
        program(arrays[0])
    with pytest.raises(RunnerError, match="given twice"):
        program(*arrays, odd=arrays[0])
    program.start_recording()
    program(*arrays[:-1], picture=torch.from_numpy(arrays[-1]))  # whatever numpy understands
    assert program.stop_recording(tmp_path / "run.etdp").calls == 1
    program.close()
    with pytest.raises(RunnerError, match="this Program is closed"):
        program(*arrays)
    with pytest.raises(RunnerError, match="is a language model, which takes a prompt, and neither"):
        Program(stories_pte)


MASKED = np.ma.array([1.0, 2.0], mask=[0, 1])


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "input 1 is None, but must be an array of numbers"),
        ({"x": 1}, "input 1 is {'x': 1}, but must be an array"),
        ("abc", "input 1 is 'abc', but must be an array"),
        ([[1.0], [1.0, 2.0]], "input 1 cannot be made an array: .*inhomogeneous"),
        (torch.zeros(2, requires_grad=True), "input 1 cannot be made an array: .*requires grad"),
        (MASKED, "input 1 has masked numbers"),
    ],
)
def test_what_is_no_array(value: Any, sentence: str) -> None:
    with pytest.raises(RunnerError, match=sentence):
        Program.__new__(Program)(value)


@pytest.mark.parametrize("kind", [Program, Runner, Transcriber])
def test_what_is_no_path(cpp_build: Path, kind: Any) -> None:
    with pytest.raises(RunnerError, match="a file's name is None, but must be a path"):
        kind(None)


def test_a_path_in_the_home_directory(
    cpp_build: Path, stories_pte: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "stories.pte").symlink_to(stories_pte)
    with pytest.raises(RunnerError, match="stories.pte is a language model, which takes a prompt"):
        Program("~/stories.pte")


def test_half_of_a_surrogate_pair_and_what_is_no_list() -> None:
    with pytest.raises(RunnerError, match="the prompt has half of a surrogate pair at character 2"):
        utf8_of("the prompt", "x\ud800")
    assert utf8_of("the prompt", "x\udcff") == b"x\xff"  # a byte of a command line
    with pytest.raises(RunnerError, match="texts is None, but must be a list of strings"):
        Embedder.__new__(Embedder).encode(None)  # type: ignore[arg-type]


def test_a_tensor_of_bfloat16_is_taken() -> None:
    """Though numpy has no such type."""
    given = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    np.testing.assert_array_equal(_array("x", given), [1.5, -2.0])
