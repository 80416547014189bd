"""The C++ under AddressSanitizer and UndefinedBehaviorSanitizer, on good input and bad; what has
threads under ThreadSanitizer too."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from support.answer_schemas import SCHEMAS
from support.cpp_programs import ask, frame_texts
from support.tiers import soaked

from runtime.build import build

pytestmark = [pytest.mark.check, pytest.mark.first]

PROGRAMS = ["sampler_test", "ops_test", "flatbuffer_test", "constraint_test"]
KERNELS = [
    "attention",
    "convolution",
    "delta",
    "elementwise",
    "linear",
    "norm",
    "quantize",
    "select",
]
METAL = ["metal_rows_test", "metal_linear_test", "metal_attention_test"]
TEAM = "delegate_team_test"  # whose threads are all that the others have
DELEGATE = "delegate_test"
SUITES = ["executor", "encoder", "session", "state"]
FURTHER = ["ops", "segments"]  # executor and engine do their work too
TESTS = [*PROGRAMS, TEAM, *(f"kernel_{name}_test" for name in KERNELS)]
PATIENCE = 1200  # seconds, for what hangs: sanitizers are slow
OTHERS = ["runner", "engine_test", "constraint_cli", "delegate_damage_test"]


@pytest.fixture(scope="module")
def sanitized() -> Path:
    return build("asan", (*TESTS, DELEGATE, *OTHERS)).directory


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [program, *arguments]
    environment = {**os.environ, "THIMBLE_ONE_OF": "16"}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert "Sanitizer" not in result.stderr and "runtime error" not in result.stderr, result.stderr
    return result


@pytest.mark.parametrize("program", TESTS)
def test_the_test_programs(sanitized: Path, program: str) -> None:
    assert run(sanitized / program).returncode == 0


@pytest.mark.parametrize("suite", [*SUITES, *soaked(FURTHER)])
def test_suites_of_the_delegate(sanitized: Path, suite: str) -> None:
    assert run(sanitized / DELEGATE, suite).returncode == 0


@pytest.mark.soak
@pytest.mark.parametrize("program", METAL)
def test_further_programs(program: str) -> None:
    assert run(build("asan", (program,)).directory / program).returncode == 0


@pytest.mark.parametrize("seed", [1, *soaked([2, 3])])
def test_a_chat(sanitized: Path, chat_pte: Path, tmp_path: Path, seed: int) -> None:
    """Twice over a session, through a full context and a reset; then over damaged ones."""
    session = tmp_path / "chat.session"
    command = [sanitized / "runner", chat_pte, "--chat", "--session", session, "-n", "20"]

    def chat(lines: str) -> int:
        result = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=PATIENCE
        )
        assert "Sanitizer" not in result.stderr and "runtime error" not in result.stderr
        return result.returncode

    for _ in range(2):
        assert chat("Hello there\n" * 6 + "/reset\n//x\n" + "Who was it?\n" * 5) == 0
    data = session.read_bytes()
    generator = random.Random(seed)
    for _ in range(20):
        damaged = bytearray(data[: generator.randrange(len(data))])
        for at in range(0, len(damaged), 97):
            damaged[at] = generator.randrange(256)
        session.write_bytes(damaged)
        assert chat("Hello\n") == 2


@pytest.mark.parametrize(
    "command", [(TEAM,), *soaked((DELEGATE, suite) for suite in SUITES + FURTHER)], ids=" ".join
)
def test_threads(command: tuple[str, ...]) -> None:
    program, *arguments = command
    assert run(build("tsan", (program,)).directory / program, *arguments).returncode == 0


@pytest.mark.parametrize("preset", ["asan", *soaked(["tsan"])])
def test_an_engine(preset: str, stories_cpu_pte: Path) -> None:
    """Requests come from several threads while another one steps."""
    program = build(preset, ("engine_test",)).directory / "engine_test"
    assert run(program, stories_cpu_pte).returncode == 0


def test_damaged_constraints(sanitized: Path) -> None:
    """Schemas, regular expressions and grammars with random changes, and random texts for them."""
    chance = random.Random(4)
    bases = [("json-schema", json.dumps(schema, ensure_ascii=False)) for schema in SCHEMAS]
    bases += [
        ("regex", r"^(?:[a-f\d]{2,5}|é+?.)*\x41\u{1F600}(?<n>x|[^\]\-z]){0,9}$"),
        ("grammar", 'root ::= (a "x\\n"{2,} | [^a-z\\x41])* b?\na ::= "é" . # c\nb ::= a+ root'),
        ("grammar", 'root ::= a %json {"type": ["array", "null"], "maxItems": 2}{2}\na ::= "a"?'),
        ("grammar", 'root ::= [a]* (<"\\x41"> | <|b|> | <[12]>)'),
        ("choice", '["a", "ab", "\\u00e9"]'),
    ]
    requests = []
    for _ in range(1500):
        kind, text = chance.choice(bases)
        data = bytearray(text.encode("utf-8"))
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(data))
            piece = bytes(
                chance.choices(b'{}[]()"\\*+?,:|^$019ax\xc3\xff\n', k=chance.randint(0, 2))
            )
            data[at : at + chance.randint(0, 2)] = piece
        texts = [b'{"a":[1,"x"', b'"2024-02-29T', b"[[1,[2]", bytes(chance.choices(data, k=9))]
        requests.append(frame_texts([kind.encode(), bytes(data), *texts]))
    assert len(ask([sanitized / "constraint_cli", "texts"], requests, 1)) == len(requests)


def test_damaged_op_lists(sanitized: Path, stories_op_list: Path) -> None:
    assert run(sanitized / "delegate_damage_test", stories_op_list, "1000").returncode == 0


def test_generation(sanitized: Path, stories_pte: Path, shared_data: Path, tmp_path: Path) -> None:
    golden = (shared_data / "stories260K" / "golden.txt").read_text(encoding="utf-8")
    etdump, json = tmp_path / "run.etdp", tmp_path / "stats.json"
    files: list[str | Path] = ["--etdump", etdump, "--json", json]
    result = run(sanitized / "runner", stories_pte, "-p", "", "-n", "256", "--verify", *files)
    assert result.stdout == golden
    options = ["-p", "", "--temperature", "5", "--top-k", "90", "--top-p", "0.9", "--min-p", "0.1"]
    assert run(sanitized / "runner", stories_pte, *options).returncode == 0


def test_bad_use(sanitized: Path, tmp_path: Path) -> None:
    uses = [[], ["--help"], ["-n"], ["x", "-n", "-5"], [str(tmp_path), "-p", "x"], ["x", "--y"]]
    for options in uses:
        assert run(sanitized / "runner", *options).returncode in (0, 1, 2)


@pytest.mark.parametrize("seed", [4, *soaked([5, 6])])
def test_random_damage(sanitized: Path, stories_pte: Path, tmp_path: Path, seed: int) -> None:
    source = stories_pte.read_bytes()
    chance = random.Random(seed)
    path = tmp_path / "damaged.pte"
    for _ in range(100):
        data = bytearray(source)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        keep = len(data) if chance.random() < 0.8 else chance.randrange(len(data))
        path.write_bytes(data[:keep])
        options = ["-p", "Once", "-n", "3", "--threads", "1"]
        assert run(sanitized / "runner", path, *options).returncode in (0, 1, 2)
