"""The command line of modules: what it prints, and what it refuses before any work."""

import json
from pathlib import Path

import pytest
import support.module_integers as integers
import support.module_traps as traps
from click.testing import CliRunner, Result

from delegates.report import Leftover
from delegates.source_lines import source_line
from devtools.compare.recording import Recorder
from devtools.profile.stack import parse_stack
from exporter.commands.cli import main
from exporter.commands.summary import show_kernels
from exporter.module.capture import capture_module
from exporter.module.places import places_of
from exporter.module.source import make_methods
from exporter.module.source_name import SourceName

SOURCE, NOTHING = f"{integers.__file__}:make", f"{traps.__file__}:no_inputs"


def export(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([SOURCE], "No output file was given; add --out module.pte."),
        (["no.py:1", "--out", "x.pte"], "'1' in no.py:1 is not the name of a function"),
        ([SOURCE, "--out", "x.pte", "--quant", "rtn4"], "--quant rtn4 is for language models"),
        ([SOURCE, "--out", "x.pte", "--quant", "int8", "--delegate", "mlx"], "needs --delegate"),
        ([SOURCE, "--out", "x.pte", "--group-size", "64"], "no effect with --quant none: leave it"),
        ([SOURCE, "--out", "x.pte", "--head-bits", "4"], "--head-bits has no effect on a module"),
        ([SOURCE, "--out", "x.pte", "--delegate", "gpu"], "delegate 'gpu' is not known"),
        ([NOTHING, "--out", "x.pte"], "it must return (module, inputs)"),
        ([NOTHING, "--explain"], "it must return (module, inputs)"),
        ([SOURCE, "--out", "x.pte", "--explain"], "--explain exports nothing"),
    ],
)
def test_options_that_are_refused(arguments: list[str], sentence: str) -> None:
    result = export(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert result.output.count("\n") == 1
    assert not Path("x.pte").exists()


def test_modules_of_torch_alone_have_the_lines_that_made_them() -> None:
    """In each graph, and where a module is run beside its file. Of what was made elsewhere it is
    the function that returned it."""
    source = Path(traps.__file__)
    made = make_methods(SourceName(source, "of_torch_alone"))["forward"]
    program = capture_module(made)
    lines = [source_line(node) for node in program.graph.nodes if node.op == "call_function"]
    rows = source.read_text().splitlines()
    found = [rows[int(line.rpartition(":")[2]) - 1] for line in lines]
    assert [text.partition("(")[0].strip() for text in found] == ["first = nn.Linear", "nn.ReLU"]

    recorder = Recorder(places={name: parse_stack(text)[0] for name, text in made.places.items()})
    with recorder.watching(made.module, ""):
        made.module(*made.inputs.args)
    places = [(one.module_path, one.operator, one.line) for one in recorder.values]
    numbers = [int(line.rpartition(":")[2]) for line in lines]
    assert places == [("0", "linear", numbers[0]), ("1", "relu", numbers[1])]

    (frame,) = set(places_of(made.module, {}, traps.of_torch_alone).values())
    assert rows[parse_stack(frame)[0].number - 1] == "def of_torch_alone() -> object:"


def test_a_long_explanation_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    long = "it computes " + ", ".join(["sums"] * 40)
    reasons = [f"the delegate has no {name}; {long}" for name in ("pow", "erf")]
    show_kernels([Leftover("it", "net.py:1", 1, reason) for reason in reasons])
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(reasons[0]) and second.endswith(": the delegate has no erf")


@pytest.mark.check
def test_explain_names_the_users_lines(tmp_path: Path) -> None:
    result = export(SOURCE, "--explain-json", str(tmp_path / "why.json"))
    assert result.exit_code == 0, result.output
    assert "input  picture: float32 (batch: 1 to 4, 3, 16, 16)" in result.output
    assert "picture.size(0): 1 to 4" in result.output
    told = json.loads((tmp_path / "why.json").read_text())
    lines = {item["line"].partition(":")[0] for item in told["delegation"]["lines"]}
    assert lines == {"module_integers.py"}
    assert told["signature"]["outputs"][0]["name"] == "output"
