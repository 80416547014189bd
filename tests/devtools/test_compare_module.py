"""`devtools compare` of a user's module: by line, on its example."""

import json
from pathlib import Path

import pytest
import support.module_nets as nets
from executorch.exir._serialize._program import deserialize_pte_binary
from support.damaged_weights import damage_weight

from devtools.commands.cli import main
from devtools.commands.compare import compare
from devtools.commands.requests import CompareRequest
from devtools.compare.outcome import Outcome
from devtools.errors import BadRequest
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName

SEEING = f"{nets.__file__}:make_seeing"


def export(name: str, delegate: str, quant: str, folder: Path) -> Path:
    pte = folder / f"{name}-{quant}.pte"
    source = SourceName(Path(nets.__file__), f"make_{name}")
    export_module(ModuleOptions(source, pte, quant, delegate, pte.with_suffix(".etrecord")))
    return pte


@pytest.fixture(scope="module")
def seeing(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export("seeing", "cpu", "none", tmp_path_factory.mktemp("seeing"))


def ask(model: Path, source: str = SEEING, text: Path | None = None) -> CompareRequest:
    return CompareRequest(model, source, None, text, 64, None)


def code_at(location: str) -> str:
    file, _, line = location.partition(":")
    assert file == Path(nets.__file__).name
    return Path(nets.__file__).read_text().splitlines()[int(line) - 1].strip()


def lines_of(outcome: Outcome) -> dict[tuple[str, str], str]:
    """The code of each line that was compared, by its module and operator."""
    return {
        (row.sink.place.module_path, row.sink.place.operator): code_at(row.sink.lines[0].location)
        for row in outcome.comparison.rows
    }


def test_every_line_of_a_module_is_compared(seeing: Path) -> None:
    """Products that the delegate computes together too, and heads that it has in another order."""
    outcome = compare(ask(seeing))
    assert outcome.comparison.unmatched == [] and outcome.wrong is None
    assert max(row.program_error for row in outcome.comparison.rows) < 1e-6
    lines = lines_of(outcome)
    for block in ("blocks.0", "blocks.1"):
        assert all("for part in (self.q," in lines[f"{block}.{name}", "linear"] for name in "qkv")
        assert "scaled_dot_product_attention" in lines[block, "view"]
        assert "F.gelu(self.up" in lines[block, "gelu"]
    assert "self.patches(picture)" in lines["patches", "linear"]


def test_a_damaged_weight_names_the_users_line(
    seeing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = damage_weight(seeing, weight_of(seeing, "blocks.1.o"), tmp_path / "damaged.pte")
    record, report = seeing.with_suffix(".etrecord"), tmp_path / "report.json"
    options = ["--checkpoint", SEEING, "--etrecord", str(record), "--json", str(report)]
    main(["compare", str(damaged), *options], standalone_mode=False)
    said = capsys.readouterr().out
    assert "beside module_nets.py:make_seeing in float, on its example" in said
    assert "program: first divergence at" in said and "differs from the float module" not in said
    told = json.loads(report.read_text())
    first = told["first_divergence"]
    assert first["module"] == "blocks.1.o"
    assert code_at(first["line"]).startswith("x = x + self.scale * self.o(")
    wrong = [row for row in told["lines"] if row["program"]["call"]["relative_error"] > 1e-3]
    assert wrong[0] == first and all(row["module"].startswith("blocks.1") for row in wrong)


def weight_of(pte: Path, name: str) -> str:
    """The name of a module's weight in a file of the CPU delegate."""
    named = deserialize_pte_binary(pte.read_bytes()).named_data
    assert named is not None
    (found,) = [key for key in named.pte_data if key.startswith(f"cpu/{name} ")]
    return found.removeprefix("cpu/")


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "delegate", "quant"),
    [("filtering", "cpu", "none"), ("turning", "cpu", "none"), ("norming", "cpu", "none")]
    + [("looking", "xnnpack", "none"), ("seeing", "cpu", "int8")],
)
def test_modules_of_other_kinds(
    cpp_build: Path, tmp_path: Path, name: str, delegate: str, quant: str
) -> None:
    """Pictures and sounds with channels in another order, lines that are lowered as several
    operators, and integers, whose distance from the float module is shown and no fault."""
    pte = export(name, delegate, quant, tmp_path)
    outcome = compare(ask(pte, f"{nets.__file__}:make_{name}"))
    assert outcome.wrong is None and outcome.comparison.rows
    worst = max(row.program_error for row in outcome.comparison.rows)
    assert worst < 1e-4 if quant == "none" else 1e-3 < worst < 0.5


def test_what_is_no_module_of_the_file_is_refused(seeing: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"the function .* as in .*:make_seeing\.$"):
        compare(ask(seeing, str(tmp_path)))
    with pytest.raises(BadRequest, match=r"has class Seeing but .*:make_looking makes Looking"):
        compare(ask(seeing, f"{nets.__file__}:make_looking"))


@pytest.mark.check
def test_a_module_without_lines_of_its_own(cpp_build: Path, tmp_path: Path) -> None:
    pte = export("lstm", "cpu", "none", tmp_path)
    with pytest.raises(BadRequest, match=r"by line: .* shows no value that a line of .*make_lstm"):
        compare(ask(pte, f"{nets.__file__}:make_lstm"))


def test_a_text_is_refused(seeing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compare", str(seeing), "--checkpoint", SEEING, "--text", __file__])
    assert "which runs on its example; leave out --text." in capsys.readouterr().err
