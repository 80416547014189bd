"""Files of several methods: numbers, weights stored once, shared memory, each method's profile."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support.module_methods as methods
import torch
from click.testing import CliRunner
from support.exported import Quiet
from support.module_methods import FIRST, WIDTH

from devtools.commands.cli import main as devtools
from devtools.profile.load import load_profile
from exporter.commands.cli import main as exporter
from exporter.errors import ExportError
from exporter.file.pte import REPORT_BYTES, read_report
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName
from runtime import Program, RunnerError

SOURCE = Path(methods.__file__)
NAMES = ("embed", "score", "remember", "recall", "remember_apart")


def export(function: str, out: Path, quant: str = "none", etrecord: Path | None = None) -> int:
    options = ModuleOptions(SourceName(SOURCE, function), out, quant, etrecord=etrecord)
    return export_module(options, Quiet()).size


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("methods") / "m.pte"
    export("make", path, etrecord=path.with_suffix(".etrecord"))
    return path


@pytest.fixture
def program(pte: Path, cpp_build: Path) -> Iterator[Program]:
    with Program(pte) as opened:
        yield opened


@pytest.mark.check
@torch.no_grad()
def test_each_method_computes_what_its_module_does(program: Program) -> None:
    assert program.methods == NAMES and program.name == "embed"
    made = methods.make()
    ids = torch.tensor([[5, 500, 5, 0]])
    rows = made["embed"][0](ids)
    got: Any = program(ids.numpy())
    np.testing.assert_array_equal(got, rows.numpy())
    with pytest.raises(RunnerError, match=r"check the numbers of the inputs, or the file with"):
        program(ids.numpy() + methods.WORDS)
    score = program.method("score")
    assert [spec.name for spec in score.inputs] == ["rows"]
    np.testing.assert_allclose(score(got), made["score"][0](rows).numpy(), atol=1e-3)
    with pytest.raises(RunnerError, match=f"has no method read: it has {', '.join(NAMES)}"):
        program.method("read")
    program.close()
    assert np.asarray(score(got)).shape == (1, 4, methods.WORDS)  # its file is still open


@pytest.mark.check
def test_weights_are_stored_once(pte: Path, tmp_path: Path) -> None:
    """A table that one method looks up in, and another multiplies by, is in the file once."""
    one = export("score", tmp_path / "one.pte")
    reports = (len(NAMES) - 1) * REPORT_BYTES  # reserved for the other methods
    assert pte.stat().st_size - reports < 1.1 * one


@pytest.mark.check
def test_methods_share_what_they_keep(program: Program) -> None:
    remember, recall = program.method("remember"), program.method("recall")
    apart = program.method("remember_apart")
    row, two = np.ones((1, WIDTH), np.float32), np.array([2.0], np.float32)

    def numbers() -> list[float]:
        called = (remember(row), recall(two), apart(row))
        return [float(np.asarray(result)[0, -1]) for result in called]

    assert numbers() == [2.0, 4.0, FIRST + 1]
    assert numbers() == [3.0, 6.0, FIRST + 2]
    assert remember.state == ("memory.kept",) and recall.state == ()
    recall.reset()
    assert numbers() == [2.0, 4.0, FIRST + 1]


@pytest.mark.check
def test_the_runner_runs_a_method(cpp_build: Path, pte: Path, tmp_path: Path) -> None:
    rows, scores = tmp_path / "rows.npy", tmp_path / "scores.npy"
    np.save(rows, np.full((1, 2, WIDTH), 0.5, np.float32))

    def run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [cpp_build / "runner", pte, f"--method={name}", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    done = run("score", f"--input={rows}", f"--output={scores}", f"--etdump={tmp_path}/run.etdp")
    assert done.returncode == 0 and "runner: score ran in " in done.stderr, done.stderr
    with Program(pte, threads=1) as program:
        np.testing.assert_array_equal(np.load(scores), program.method("score")(np.load(rows)))
    wrong = run("read", f"--input={rows}")
    assert wrong.returncode == 2
    assert wrong.stderr == f"runner: {pte} has no method read: it has {', '.join(NAMES)}\n"
    profile = load_profile(tmp_path / "run.etdp", pte.with_suffix(".etrecord"))
    assert list(profile.groups) == ["run score"]


@pytest.mark.check
def test_a_profile_tells_methods_apart(program: Program, pte: Path, tmp_path: Path) -> None:
    program.start_recording()
    score = program.method("score")
    for _ in range(2):
        score(program(np.array([[1, 2]])))
    assert score.stop_recording(tmp_path / "run.etdp").calls == 4
    record = pte.with_suffix(".etrecord")
    profile = load_profile(tmp_path / "run.etdp", record)
    assert {name: len(calls) for name, calls in profile.groups.items()} == {
        "run embed": 2,
        "run score": 2,
    }
    assert not profile.coverage.unresolved
    functions = {
        name: {line.text for call in calls for event in call.events for line in event.lines}
        for name, calls in profile.groups.items()
    }
    assert functions["run embed"] == {"return self.table(ids)"}
    assert functions["run score"] == {"return self.head(torch.tanh(rows))"}

    files = {name: str(tmp_path / name) for name in ("inspect.json", "page.html", "trace.json")}
    both = [str(tmp_path / "run.etdp"), "--etrecord", str(record)]
    shown = CliRunner().invoke(devtools, ["inspect", *both, "--json", files["inspect.json"]])
    assert shown.exit_code == 0 and "run embed: 2 calls" in shown.output, shown.output
    assert set(json.loads(Path(files["inspect.json"]).read_text())["phases"]) == set(profile.groups)
    assert (
        CliRunner().invoke(devtools, ["trace", *both, "--out", files["trace.json"]]).exit_code == 0
    )
    assert '"run score"' in Path(files["trace.json"]).read_text()
    page = ["report", *both, "--out", files["page.html"], "--pte", str(pte)]
    refused = CliRunner().invoke(devtools, page)
    assert refused.exit_code == 2 and "name it with --method" in refused.output
    made = CliRunner().invoke(devtools, [*page, "--method", "score"])
    assert made.exit_code == 0, made.output
    facts = CliRunner().invoke(exporter, ["--inspect", str(pte)])
    assert facts.exit_code == 0 and "remember_apart, agreement" in facts.output, facts.output


@pytest.mark.check
def test_integers_of_shared_linears_are_stored_once(tmp_path: Path) -> None:
    """GPTQ solves each once, whatever the methods' calibration inputs are."""
    path = tmp_path / "deep.pte"
    size = export("deep", path, "int4")
    report = read_report(path)["methods"]
    assert {name: one["quantization"]["layers"] for name, one in report.items()} == {
        "plain": 2,
        "squared": 2,
    }
    weights = 2 * WIDTH * methods.WORDS // 2
    assert size < 1.1 * weights + 2 * REPORT_BYTES + 40_000


@pytest.mark.check
def test_explain_has_each_method(tmp_path: Path) -> None:
    why = tmp_path / "why.json"
    result = CliRunner().invoke(exporter, [f"{SOURCE}:deep", "--explain-json", str(why)])
    assert result.exit_code == 0, result.output
    assert "method plain:" in result.output and "method squared:" in result.output
    told = json.loads(why.read_text())["methods"]
    taken = {name: set(one["delegation"]["delegated"]) for name, one in told.items()}
    assert taken["squared"] - taken["plain"] == {"_softmax"}


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("nameless", "returns a method named 'not a name'; a method's name must be an identifier"),
        ("failing", "Method bad: The module fails on its own example inputs at module_methods.py:"),
    ],
)
def test_what_is_refused(function: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=sentence):
        export(function, tmp_path / "no.pte")
    assert not (tmp_path / "no.pte").exists()
