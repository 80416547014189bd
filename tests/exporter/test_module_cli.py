"""The command line of modules: what it prints, and what it refuses before any work."""

import json
from pathlib import Path

import pytest
import support.module_integers as integers
import support.module_traps as traps
from click.testing import CliRunner, Result

from exporter.commands.cli import main

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
