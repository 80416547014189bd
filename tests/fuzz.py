"""Fuzzes what reads bytes of others, and prints a table of it: `make fuzz SECONDS=600`.

    python tests/fuzz.py SECONDS [MODEL.pte] [--only TARGET ...]

Each target gets its share of the seconds, one after the other. Inputs that it learned stay in
build/fuzz/corpus. What ends a target is kept in build/fuzz/found, and the command then fails. The
table counts executions and CPU seconds of all runs so far, and the lines of a reader that ran.
Readers in Python get the last share, as the tests test_hostile_bytes.py with more examples.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from support.fuzz_corpora import corpora

from runtime.build import find_dr_libs, find_tool
from runtime.executorch_package import find_executorch

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "fuzz"
CPP = ROOT / "runtime" / "cpp"
READERS = {  # the sources that a target reads bytes with, below runtime/cpp
    "chat_template": ["tokenizer/chat_template.cpp"],
    "constraint": ["constraint/*.cpp"],
    "npy": ["tensors/npy.cpp"],
    "op_list": ["delegate/program/*.cpp", "delegate/ops/*.cpp"],
    "picture": [f"picture/{name}.cpp" for name in "exif jpeg png ppm read_picture webp".split()],
    "pte": ["model/pte_file.cpp"],
    "session": ["model/session_file.cpp"],
    "settings": [
        *("embed/embedding_settings.cpp", "hear/transcription_settings.cpp"),
        *("picture/patches.cpp", "picture/picture_settings.cpp", "picture/tiles.cpp"),
        *("sound/log_mel.cpp", "sound/waveform.cpp"),
    ],
    "signature": ["trust/public_key.cpp", "trust/signature_file.cpp"],
    "sound": [
        f"sound/{name}.cpp" for name in "compressed pcm resampled_sound sound_file wav".split()
    ],
    "tokenizer": ["tokenizer/*.cpp"],
}
TARGETS = list(READERS)
IN_MEMORY = Path("/dev/shm")  # of Linux, where files cost no disk
MOST_MEGABYTES = 2048  # of memory of a target
LONGEST = 60  # seconds of an input, by the clock


def build(targets: list[str]) -> None:
    configure = [find_tool("cmake"), "-G", "Ninja", "-S", CPP / "fuzz", "-B", BUILD]
    settings = {
        "CMAKE_MAKE_PROGRAM": find_tool("ninja"),
        "CMAKE_CXX_COMPILER": "clang++",
        "executorch_DIR": find_executorch() / "share" / "cmake",
        **find_dr_libs(),
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    subprocess.run([*configure, *options], check=True)
    names = [f"fuzz_{target}" for target in targets]
    subprocess.run([find_tool("ninja"), "-C", BUILD, *names], check=True)


@dataclass(frozen=True)
class Fuzzed:
    """What a target did: executions and CPU seconds of all runs so far; good: nothing was found."""

    executions: int
    seconds: float
    good: bool


def fuzz(target: str, seeds: list[bytes], seconds: int) -> Fuzzed:
    corpus, found = BUILD / "corpus" / target, BUILD / "found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(seeds):
        (corpus / f"seed{index}").write_bytes(seed)
    limits = [
        f"-rss_limit_mb={MOST_MEGABYTES}",
        f"-timeout={LONGEST}",
        f"-max_total_time={seconds}",
    ]
    command = [BUILD / f"fuzz_{target}", corpus, *limits, f"-artifact_prefix={found}/{target}-"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [*command, "-print_final_stats=1", "-max_len=1048576"],
        capture_output=True,
        text=True,
        errors="replace",
        env=environment(target),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    executions = re.findall(r"number_of_executed_units: (\d+)", ended.stderr)
    if ended.returncode != 0:
        print(ended.stderr[-6000:], file=sys.stderr)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return add_up(target, int(executions[-1]) if executions else 0, spent, ended.returncode == 0)


def environment(target: str) -> dict[str, str]:
    profile, folder = BUILD / f"{target}.profraw", IN_MEMORY if IN_MEMORY.is_dir() else BUILD
    return os.environ | {"THIMBLE_FUZZ_FOLDER": str(folder), "LLVM_PROFILE_FILE": str(profile)}


def add_up(target: str, executions: int, seconds: float, good: bool) -> Fuzzed:
    """Adds a run to those before, in build/fuzz/runs.json."""
    path = BUILD / "runs.json"
    runs = json.loads(path.read_text()) if path.exists() else {}
    before = runs.get(target, [0, 0])
    runs[target] = [before[0] + executions, before[1] + seconds]
    path.write_text(json.dumps(runs))
    return Fuzzed(*runs[target], good)


def coverage(target: str) -> float:
    """The percentage of lines of a target's reader that its corpus runs."""
    program, raw = BUILD / f"fuzz_{target}", BUILD / f"{target}.profraw"
    corpus = BUILD / "corpus" / target
    command = [program, corpus, "-runs=0"]
    subprocess.run(command, check=True, capture_output=True, env=environment(target))
    data = raw.with_suffix(".profdata")
    subprocess.run([find("llvm-profdata"), "merge", "-sparse", raw, "-o", data], check=True)
    ended = subprocess.run(
        [find("llvm-cov"), "export", "-summary-only", program, f"-instr-profile={data}"],
        check=True,
        capture_output=True,
    )
    sources = {path for pattern in READERS[target] for path in CPP.glob(pattern)}
    files = json.loads(ended.stdout)["data"][0]["files"]
    lines = [
        file["summary"]["lines"] for file in files if Path(file["filename"]).resolve() in sources
    ]
    return 100 * sum(one["covered"] for one in lines) / sum(one["count"] for one in lines)


def find(program: str) -> str:
    """A program of clang's, which stands beside it under its own name."""
    clang = Path(os.path.realpath(str(shutil.which("clang++"))))
    return str(clang.with_name(program)) if clang.with_name(program).exists() else program


def read_in_python(seconds: int) -> bool:
    """Runs the tests of the readers in Python for some seconds; returns whether they passed."""
    end, examples = time.monotonic() + seconds, max(10, min(200, seconds))
    tests = sorted(ROOT.glob("tests/*/test_hostile_bytes.py"))
    good = True
    while good and time.monotonic() < end:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *tests],
            cwd=ROOT,
            env=os.environ | {"THIMBLE_EXAMPLES": str(examples)},
        )
        good, examples = ended.returncode == 0, 2 * examples
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=int)
    parser.add_argument("model", type=Path, nargs="?", default=ROOT / "build" / "demo.pte")
    parser.add_argument("--only", choices=[*TARGETS, "python"], nargs="+")
    request = parser.parse_args()
    chosen = request.only or [*TARGETS, "python"]
    targets = [target for target in TARGETS if target in chosen]
    seeds: dict[str, list[bytes]] = {}
    if targets:
        build(targets)
        seeds = corpora(request.model, BUILD / "made", ROOT / "build")
    share = max(1, request.seconds // len(chosen))
    print("| target | executions | CPU seconds | lines | |\n|---|---|---|---|---|")
    healthy = True
    for target in targets:
        fuzzed = fuzz(target, seeds[target], share)
        healthy = healthy and fuzzed.good
        row = f"| {target} | {fuzzed.executions:,} | {fuzzed.seconds:,.0f} | "
        row += f"{coverage(target):.0f}% |" if fuzzed.good else "|"
        print(f"{row} {'nothing' if fuzzed.good else 'found: build/fuzz/found'} |", flush=True)
    if "python" in chosen:
        healthy = read_in_python(share) and healthy
    sys.exit(0 if healthy else 1)


if __name__ == "__main__":
    main()
