"""What a healthy export and a healthy inspection print: our lines, and not one more."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.tiers import checked

import devtools.commands.cli
import exporter.embedded.train
import quant.commands.cli
import runtime.commands.cli
from delegates import DELEGATES, get_delegate
from exporter.commands.cli import main
from exporter.file.pte import read_report

ROOT = Path(__file__).resolve().parents[2]
NUMBER = r"[\d,]+(\.\d+)?(e[+-]\d+)?"
SIZE = r"[\d.]+ [kM]B"
RUNNING = re.compile(r"[\w' ]+: (still running|\d+%), .*").fullmatch  # on a machine that is slow

STAGES = [
    r"Starting PyTorch",
    r"No file names a tokenizer_class, so tokenizer\.model is read as SentencePiece reads it\. .*",
    r"Measuring the effect of more bits: [\d.]+ s",
    r"Quantizing: [\d.]+ s",
    r"Capturing the program: [\d.]+ s",
    r"Lowering to the delegate: [\d.]+ s",
    r"Writing the file: [\d.]+ s",
    r"Checking the file's results: [\d.]+ s",
]


def run_exporter(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "exporter", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def assert_lines(text: str, patterns: list[str]) -> None:
    lines = text.splitlines()
    for line, pattern in zip(lines, patterns, strict=False):
        assert re.fullmatch(pattern, line), f"{line!r} is not {pattern!r}"
    assert len(lines) == len(patterns), lines


@pytest.mark.check
def test_an_export_prints_only_our_lines(
    one_layer_checkpoint: Path, calibration_text: Path, cpp_build: Path, tmp_path: Path
) -> None:
    out, etrecord = tmp_path / "model.pte", tmp_path / "model.etrecord"
    result = run_exporter(
        *(one_layer_checkpoint, "--calibration", calibration_text, "--calibration-tokens", "1024"),
        *("--out", out, "--etrecord", etrecord, "--layer-errors"),
    )
    assert result.returncode == 0, result.stderr
    assert_lines(
        "\n".join(line for line in result.stderr.splitlines() if not RUNNING(line)), STAGES
    )
    assert_lines(
        result.stdout,
        [
            rf"layer 0: relative error {NUMBER}",
            rf"weights: {NUMBER} at {NUMBER} bits each \({NUMBER} in the layers; embedding {SIZE}, "
            r"head shared with the embedding\)",
            rf"quality: perplexity {NUMBER} ± {NUMBER} in float, {NUMBER} ± {NUMBER} as exported; "
            rf"KL {NUMBER} ± {NUMBER} nats, top-1 {NUMBER}% ± {NUMBER}% "
            rf"\({NUMBER} held-out tokens of {calibration_text.name}\)",
            r"delegate: cpu runs 8 of 8 linears \(100%\) in 1 call",
            rf"checked: the file's logits differ from the quantized model's by {NUMBER} of their "
            r"deviation over 8 calls",
            rf"wrote {re.escape(str(out))}: {SIZE} in \d+ s, peak memory {SIZE}",
            rf"wrote {re.escape(str(etrecord))}: {SIZE}",
        ],
    )
    assert sorted(tmp_path.iterdir()) == [etrecord, out]


def test_an_inspection_prints_only_our_lines(stories_cpu_pte: Path) -> None:
    result = run_exporter("--inspect", stories_cpu_pte)
    assert result.returncode == 0 and result.stderr == ""
    titles = [line.strip() for line in result.stdout.splitlines() if line[0].isalpha()]
    assert [title for title in titles if not title.startswith("delegation: ")] == [
        "model",
        "quantization",
        "text",
        "quality",
        "delegation",
        "agreement",
        "file: every checksum is correct",
    ]
    for fact in ("stories260K", "gptq4", "thimble.tokenizer", "perplexity_float", "linear 36"):
        assert fact in result.stdout
    assert "tinystories_calibration.txt" in result.stdout


def test_help_names_every_option_and_is_quick() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for option in main.params:
        assert any(name in result.stdout for name in [*option.opts, option.name.upper()])
    assert "python -m exporter llama3 --out model.pte" in result.stdout
    script = "import sys, exporter.commands.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


COMMANDS: dict[str, click.Command] = {
    "exporter": main,
    "quant": quant.commands.cli.main,
    "runtime": runtime.commands.cli.main,
    "devtools": devtools.commands.cli.main,
    "exporter.embedded.train": exporter.embedded.train.main,
}


@pytest.mark.parametrize("module", COMMANDS)
def test_every_command_explains_itself_with_h(module: str) -> None:
    command = COMMANDS[module]
    below = list(command.commands) if isinstance(command, click.Group) else []
    for arguments in [[], *([name] for name in below)]:
        short, long = (CliRunner().invoke(command, [*arguments, name]) for name in ("-h", "--help"))
        assert (short.exit_code, short.stderr) == (0, "")
        assert short.stdout == long.stdout and "-h, --help" in short.stdout


@pytest.mark.parametrize("module", ["exporter", "quant", "runtime", "devtools"])
def test_every_tool_tells_its_version(module: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    result = CliRunner().invoke(COMMANDS[module], ["--version"])
    assert (result.exit_code, result.stderr) == (0, "")
    ours, theirs = result.stdout.splitlines()
    assert ours == f"thimble {project['version']}"
    assert re.fullmatch(r"with torch 2\.\S+, torchao \S+, executorch 1\.\S+, Python 3\.\S+", theirs)


@pytest.mark.parametrize("columns", ["60", "200"])
def test_an_inspection_fits_any_width(stories_cpu_pte: Path, columns: str) -> None:
    result = CliRunner().invoke(main, ["--inspect", str(stories_cpu_pte)], env={"COLUMNS": columns})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= int(columns)
    digest = read_report(stories_cpu_pte)["text"]["sha256"]
    shown = "".join(line.split("│")[2].strip() for line in rows_of(result.stdout, "text"))
    assert digest in shown  # on several lines where one is too narrow


def test_an_inspection_for_a_pipe(stories_cpu_pte: Path) -> None:
    text = CliRunner().invoke(main, ["--inspect", str(stories_cpu_pte)]).stdout
    assert not re.search(r" $", text, re.MULTILINE)
    facts = dict(re.findall(r"^│ (\w+) +│ (.*?) +│$", text, re.MULTILINE))
    assert facts["tie_word_embeddings"] == "yes" and facts["adapter"] == "none"
    assert (
        "parts" not in facts and facts["sha256"] == read_report(stories_cpu_pte)["text"]["sha256"]
    )


def test_the_list_of_delegates_for_a_pipe() -> None:
    text = CliRunner().invoke(main, ["--list-delegates"]).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    answers = {row[0]: row[4:] for row in rows if row}
    assert list(answers) == list(DELEGATES)  # a line each
    assert answers["xnnpack"] == ["yes", "yes"] and answers["mlx"] == ["yes", "no"]
    assert "file run here" in text


def test_the_help_names_who_stores_rtn8_by_rows() -> None:
    limits = [get_delegate(name).LIMITS for name in DELEGATES]
    by_rows = [each.name for each in limits if 8 in each.weight_bits and not each.int8_groups]
    text = " ".join(CliRunner().invoke(main, ["--help"]).stdout.split())
    assert f"{', '.join(by_rows[:-1])} and {by_rows[-1]} store rtn8 with one scale a row" in text


def test_summaries_of_commands_are_whole() -> None:
    text = CliRunner().invoke(quant.commands.cli.main, ["--help"]).stdout
    summaries = text.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(summaries) == 4
    assert all(re.fullmatch(r"  \w+ +[A-Z]\w+s .*[a-z]\.", line) for line in summaries)


@pytest.mark.parametrize(("typed", "name"), [("thimble-export", "thimble-export"), ("x", "python")])
def test_examples_have_the_name_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, typed: str, name: str
) -> None:
    monkeypatch.setattr(sys, "argv", [f"/bin/{typed}"])
    examples = CliRunner().invoke(main, ["--help"]).stdout.partition("Examples:\n")[2]
    assert {line.split()[0] for line in examples.splitlines()} == {name}


def rows_of(text: str, title: str) -> list[str]:
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip() == title)
    end = next(index for index in range(start, len(lines)) if lines[index].startswith("└"))
    return lines[start + 2 : end]


@pytest.mark.parametrize("question", ["--inspect", *checked(["--list-delegates"])])
def test_a_reader_that_closes_the_pipe(stories_cpu_pte: Path, question: str) -> None:
    """As head does: no trace, and the exit code of all commands then."""
    words = [question, *([stories_cpu_pte] if question == "--inspect" else [])]
    command = [sys.executable, "-m", "exporter", *map(str, words)]
    read, write = os.pipe()
    os.close(read)  # before the first line
    with open(write, "wb") as pipe:
        result = subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (1, "")


def test_an_answer_inside_another_program(stories_cpu_pte: Path) -> None:
    """Its standard output is no file."""
    answer = CliRunner().invoke(main, ["--list-delegates"])
    assert answer.exit_code == 0 and "xnnpack" in answer.stdout
    answer = CliRunner().invoke(main, ["--inspect", str(stories_cpu_pte)])
    assert answer.exit_code == 0 and "every checksum is correct" in answer.stdout
