"""`python -m devtools bench`: what it measures and writes, on real models and real programs."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.adapters import save_adapter
from support.exported import Quiet

from devtools.bench.server import Server
from devtools.bench.shape import describe_model
from exporter.checkpoint import open_checkpoint
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "version",
    "machine",
    "model",
    "settings",
    "engines",
    "limits",
    "results",
    "starts",
    "ratios",
    "batch_costs",
    "notes",
}

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the command line with one thread count and a cache of its own."""
    cache = tmp_path_factory.mktemp("cache")

    def run_bench(*arguments: str | Path, threads: str = "1") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "devtools", "bench", *map(str, arguments)]
        command += ["--threads", threads, "--cache", str(cache)]
        return subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=900,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    return run_bench


def read(path: Path) -> dict[str, Any]:
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report.keys() == KEYS
    assert report["version"] == 1
    return report


def numbers(value: Any) -> list[float]:
    """Every number in a report's lists of results."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


PROGRESS = re.compile(r"\d+ of \d+: ")


@pytest.mark.check
def test_everything_is_measured_beside_its_limit(
    stories_gptq_pte: Path, run: Run, tmp_path: Path
) -> None:
    out, picture = tmp_path / "run.json", tmp_path / "run.png"
    result = run(stories_gptq_pte, "--quick", "--json", out, "--plot", picture, threads="1,2")
    assert result.returncode == 0, result.stderr
    report = read(out)
    assert report["settings"] == {"threads": [1, 2], "repeats": 2}
    name = stories_gptq_pte.stem
    layer = [(64, 64), (32, 64), (32, 64), (64, 64), (172, 64), (172, 64), (64, 172)]
    # As XNNPACK stores them: 18 bytes for each 32 weights, a head of 8 bits, float32 norms.
    read_once = 5 * sum(rows * -(-columns // 32) * 18 for rows, columns in layer)
    read_once += 512 * (64 + 4) + 11 * 64 * 4
    assert report["model"]["weight_bytes_per_token"] == read_once
    assert [engine["name"] for engine in report["engines"]] == [name]
    for limit, threads in zip(report["limits"], (1, 2), strict=True):
        assert limit["threads"] == threads
        assert limit["read_bytes_per_s"] > 1e8  # any machine since the nineties
    measured = {(item["threads"], item["work"]): item for item in report["results"]}
    works = ["prefill 128", "decode at 0", "batch of 4"]
    assert list(measured) == [(threads, work) for threads in (1, 2) for work in works]
    for item in measured.values():
        assert len(item["seconds"]) == 2
        assert all(0 < value < math.inf for value in item["seconds"])
        taken = item["tokens"] * item["calls"] / item["median_s"]
        assert item["tokens_per_s"] == pytest.approx(taken)
        if item["kind"] != "prefill" or report["limits"][0]["int8_unit"]:
            assert 0 < item["share_of_limit"] < math.inf
            assert 0 < item["limit_tokens_per_s"] < math.inf
    for start in report["starts"]:
        assert 0 < start["load_s"] < start["ttft_s"]
        assert start["peak_memory_bytes"] > report["model"]["file_bytes"]
    assert [cost["threads"] for cost in report["batch_costs"]] == [1, 2]
    assert all(cost["ratio"] > 0 for cost in report["batch_costs"])
    assert report["ratios"] == report["notes"] == []
    assert all(line in result.stdout for line in ("this machine, 1 thread: reads", "decode at 0"))
    with Image.open(picture) as image:
        assert image.format == "PNG" and image.width > 600


def test_depths_that_the_context_cannot_hold_are_named(
    stories_pte: Path, run: Run, tmp_path: Path
) -> None:
    """Its context holds 512 positions: depths of 1024 and more are left out, and it says so."""
    out = tmp_path / "run.json"
    result = run(stories_pte, "--repeats", "1", "--json", out)
    assert result.returncode == 0, result.stderr
    report = read(out)
    works = [item["work"] for item in report["results"]]
    assert works == ["prefill 128", "prefill 512", "decode at 0", "batch of 4"]
    assert report["notes"] == [
        f"{work} is left out: it takes a context of {context} and the model's holds 512; "
        f"export with --max-context-len {context}, if the model can."
        for work, context in (
            ("prefill 2048", 2048),
            ("decode at 1024", 1056),
            ("decode at 4096", 4128),
        )
    ]
    assert all(note in result.stderr for note in report["notes"])


@pytest.mark.soak
def test_xnnpack_is_measured_in_turns(embedded_pte: Path, run: Run, tmp_path: Path) -> None:
    """The same shape on the same delegate: as large, and about as fast; kept for the next run."""
    out = tmp_path / "run.json"
    for attempt in range(2):
        result = run(embedded_pte, "--quick", "--against", "xnnpack", "--json", out)
        assert result.returncode == 0, result.stderr
        assert ("making" in result.stderr) == (attempt == 0)
        said = [line for line in result.stderr.splitlines() if not PROGRESS.match(line)]
        assert len(said) <= 1, "a healthy run warns of nothing"
    report = read(out)
    ours, theirs = (engine["name"] for engine in report["engines"])
    assert (ours, theirs) == (embedded_pte.stem, "xnnpack")
    sizes = [Path(engine["model"]).stat().st_size for engine in report["engines"]]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)  # they differ in their tokenizers
    medians = {(item["engine"], item["work"]): item for item in report["results"]}
    works = ["prefill 128", "decode at 0", "batch of 4"]
    ratios = {item["work"]: item for item in report["ratios"]}
    assert list(ratios) == [*works, "load", "first token", "memory"]
    for work in works:
        expected = medians[ours, work]["tokens_per_s"] / medians[theirs, work]["tokens_per_s"]
        assert ratios[work]["ratio"] == pytest.approx(expected)
        assert ratios[work]["against"] == "xnnpack"
        assert medians[theirs, work]["share_of_limit"] > 0
    assert all(0 < number < math.inf for number in numbers(report["ratios"]))
    assert ratios["memory"]["ratio"] == pytest.approx(1.0, rel=0.2)


def test_the_same_model_recording_and_in_another_build(
    stories_pte: Path, run: Run, cpp_build: Path, tmp_path: Path
) -> None:
    out, other = tmp_path / "run.json", tmp_path / "before" / "bench"
    other.parent.mkdir()
    other.symlink_to(cpp_build / "bench")
    rivals: list[str | Path] = ["--against", "recording", "--against", other]
    result = run(stories_pte, "--quick", *rivals, "--json", out)
    assert result.returncode == 0, result.stderr
    report = read(out)
    names = [engine["name"] for engine in report["engines"]]
    assert names == [stories_pte.stem, "recording", "build before"]
    assert {engine["model"] for engine in report["engines"]} == {str(stories_pte)}
    assert {item["against"] for item in report["ratios"]} == set(names[1:])


@pytest.mark.check
def test_an_adapter_of_the_file(
    shared_data: Path, run: Run, cpp_build: Path, tmp_path: Path
) -> None:
    checkpoint = shared_data / "stories260K"
    adapter = save_adapter(tmp_path / "a", open_checkpoint(checkpoint).config, 1)
    pte, out = tmp_path / "model.pte", tmp_path / "run.json"
    options = ExportOptions(
        model=str(checkpoint),
        out=pte,
        adapters=(("mine", str(adapter)),),
        scheme=Scheme("rtn4"),
        delegate="cpu",
    )
    (facts,) = export_model(options, Quiet()).report["model"]["adapters"]
    result = run(pte, "--quick", "--against", "adapter:mine", "--json", out)
    assert result.returncode == 0, result.stderr
    report = read(out)
    assert [engine["name"] for engine in report["engines"]] == ["model", "adapter:mine"]
    assert {item["against"] for item in report["ratios"]} == {"adapter:mine"}
    result = run(pte, "--quick", "--against", "adapter:other")
    assert result.returncode == 2
    assert result.stderr == "Error: there is no adapter other: the model has mine.\n"
    with Server([cpp_build / "bench", pte, "-p", "", "--adapter", "mine"], "bench") as server:
        said = server.greeting
    plain, with_it = (describe_model(said, str(pte), name) for name in (None, "mine"))
    assert with_it.weight_bytes_per_token - plain.weight_bytes_per_token == facts["bytes"]


@pytest.mark.check
def test_conversations_at_once(
    embedded_cpu_pte: Path, run: Run, cpp_build: Path, tmp_path: Path
) -> None:
    """In an engine of ours, and in that of another build."""
    out, picture, other = (
        tmp_path / "run.json",
        tmp_path / "run.svg",
        tmp_path / "before/build/bench",
    )
    other.parent.mkdir(parents=True)
    other.symlink_to(cpp_build / "bench")
    result = run(
        *(embedded_cpu_pte, "--sequences", "1,3", "--repeats", "2", "--against", other),
        *("--json", out, "--plot", picture),
        threads="1,2",
    )
    assert result.returncode == 0, result.stderr
    report = read(out)
    measured = {(r["engine"], r["threads"], r["work"]): r for r in report["results"]}
    names = [embedded_cpu_pte.stem, "build before"]
    works = ["1 conversation", "3 conversations"]
    assert set(measured) == {(n, t, w) for n in names for t in (1, 2) for w in works}
    for (_, _, work), item in measured.items():
        count = 1 if work == works[0] else 3
        assert (item["kind"], item["tokens"], item["sequences"]) == ("sequences", 32, count)
        assert item["tokens_per_s"] == pytest.approx(count * 32 / item["median_s"])
    assert report["starts"] == report["notes"] == []
    assert {item["work"] for item in report["ratios"]} == set(works)
    assert f"{names[0]}, 2 threads: times 1 conversation: " in result.stdout
    assert picture.stat().st_size > 0


def test_conversations_need_the_cpu_delegate(stories_pte: Path, run: Run) -> None:
    result = run(stories_pte, "--sequences", "2", "--repeats", "1")
    assert result.returncode == 1
    assert "cannot run several sequences at once" in result.stderr
    assert "--delegate cpu" in result.stderr


def find_llama_bench() -> str | None:
    return os.environ.get("THIMBLE_LLAMA_BENCH") or shutil.which("llama-bench")


@pytest.mark.check
def test_llama_bench_is_measured_in_turns(embedded_pte: Path, run: Run, tmp_path: Path) -> None:
    program = find_llama_bench()
    if program is None:
        pytest.skip("no llama-bench on the PATH or in THIMBLE_LLAMA_BENCH")
    out = tmp_path / "run.json"
    kinds = ["--gguf-type", "Q4_0", "--gguf-type", "Q8_0"]
    result = run(embedded_pte, "--quick", "--against", program, *kinds, "--json", out)
    assert result.returncode == 0, result.stderr
    report = read(out)
    names = [engine["name"] for engine in report["engines"]]
    assert names == [embedded_pte.stem, "llama-bench Q4_0", "llama-bench Q8_0"]
    # Of the same shape: 4.5 and 8.5 bits for each of 4,194,304 + 2,304 weights, and the vocabulary.
    small, large = (Path(engine["model"]).stat().st_size for engine in report["engines"][1:])
    assert large - small == pytest.approx(4_194_304 * 4 / 8, rel=0.01)
    assert report["notes"] == []
    assert {item["against"] for item in report["ratios"]} == set(names[1:])
    assert all(0 < number < math.inf for number in numbers(report["results"]) if number != 0)
    for start in report["starts"]:
        assert 0 < start["load_s"] < start["ttft_s"]
        assert start["peak_memory_bytes"] > 1e6


@pytest.mark.parametrize("peer", ["openvino", "onnxruntime-genai", "ik-llama"])
def test_a_peer_with_a_python_of_its_own(
    peer: str, embedded_cpu_pte: Path, run: Run, tmp_path: Path
) -> None:
    """It does all that ours does, to the last position of the context."""
    known = os.environ.get("THIMBLE_PEERS", "").split()
    rival = next((name for name in known if name.startswith(f"{peer}:")), None)
    if rival is None:
        pytest.skip(f"THIMBLE_PEERS has no {peer}:PYTHON")
    out, kind = tmp_path / "run.json", ["--gguf-type", "IQ4_KS"]
    result = run(embedded_cpu_pte, "--repeats", "1", "--against", rival, *kind, "--json", out)
    assert result.returncode == 0, result.stderr
    report = read(out)
    names = [embedded_cpu_pte.stem, f"{peer} {'IQ4_KS' if peer == 'ik-llama' else 'int4'}"]
    measured = [(item["engine"], item["work"]) for item in report["results"]]
    works = [work for name, work in measured if name == names[0]]
    assert "prefill 2048" in works
    assert set(measured) == {(name, work) for name in names for work in works}
    assert {start["engine"] for start in report["starts"]} == set(names)


def test_conversations_beside_llama_batched_bench(
    embedded_cpu_pte: Path, run: Run, tmp_path: Path
) -> None:
    program = find_llama_bench()
    if program is None or not Path(program).with_name("llama-batched-bench").is_file():
        pytest.skip("no llama-bench with llama-batched-bench beside it (THIMBLE_LLAMA_BENCH)")
    out = tmp_path / "run.json"
    rival = ["--against", program, "--gguf-type", "Q4_0"]
    result = run(embedded_cpu_pte, "--sequences", "1,4", "--repeats", "1", *rival, "--json", out)
    assert result.returncode == 0, result.stderr
    report = read(out)
    assert report["notes"] == []
    assert {item["work"] for item in report["ratios"]} == {"1 conversation", "4 conversations"}
    assert all(0 < item["ratio"] < math.inf for item in report["ratios"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no.pte"], "there is no file no.pte: name a .pte file that thimble-export wrote."),
        (
            ["MODEL", "--against", "nobody"],
            "--against nobody is not known; give cpu, xnnpack, openvino, onnxruntime-genai, "
            "ik-llama, recording, adapter:NAME, a .pte file, or the path of llama-bench or of "
            "another build's bench.",
        ),
        (
            ["MODEL", "--against", "/bin/sh"],
            "/bin/llama-quantize is missing but needed to make the model for sh; build both into "
            "the same directory.",
        ),
        (
            ["MODEL", "--json", "/nowhere/run.json"],
            "/nowhere/run.json cannot be written; name a file in an existing, writable directory.",
        ),
        (
            ["MODEL", "--against", "openvino:/bin/false"],
            "/bin/false lacks what openvino needs; install openvino and nncf there, or give a "
            "Python that has them, as --against openvino:PYTHON.",
        ),
        (
            ["MODEL", "--against", "ik-llama:/nonexist"],
            "/nonexist cannot be started (No such file or directory); give a Python that has "
            "ik-llama-cpp-python, as --against ik-llama:PYTHON.",
        ),
        (
            ["MODEL", "--against", "/bin/sh", "--gguf", "no.gguf"],
            "no.gguf is not a file; name a GGUF model for llama-bench.",
        ),
        (["MODEL", "--plot", "."], ". is a directory; name a file to write."),
        (
            ["MODEL", "--plot", "b.txt"],
            "b.txt is not a picture; name a file that ends in .png, .svg, .pdf.",
        ),
        (["MODEL", "--json", "MODEL"], "MODEL is also an input; name another file to write."),
    ],
)
def test_bad_requests_end_with_a_sentence(
    arguments: list[str], sentence: str, stories_pte: Path, run: Run
) -> None:
    words = [str(stories_pte) if word == "MODEL" else word for word in arguments]
    result = run(*words, "--quick")
    assert (result.returncode, result.stdout) == (2, "")
    sentence = sentence.replace("MODEL", str(stories_pte))
    assert result.stderr.splitlines() == [f"Error: {sentence}"]


def test_bad_counts_are_refused(stories_pte: Path, run: Run) -> None:
    result = run(stories_pte, threads="1,zero")
    assert result.returncode == 2
    assert "'1,zero' is not a list of thread counts; write numbers from 1 to 256" in result.stderr
    result = run(stories_pte, "--sequences", "33")
    assert result.returncode == 2
    assert "'33' is not a list of conversation counts; write numbers from 1 to 32" in result.stderr
    result = run(stories_pte, "--sequences", "2", "--quick")
    assert result.returncode == 2
    assert "--sequences and --quick are different measurements" in result.stderr


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [(0, "is empty: export it again"), (30, "is not a Thimble program"), (-9, "is not a Thimble")],
)
def test_a_file_that_is_no_model_is_refused(
    kept: int, sentence: str, stories_pte: Path, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "cut.pte"
    path.write_bytes(stories_pte.read_bytes()[:kept])
    for words in ([path], [stories_pte, "--against", path]):
        result = run(*words)
        assert (result.returncode, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"Error: {path} {sentence}") and line.endswith(".")
        assert "ended" not in line and line.count(str(path)) == 1
