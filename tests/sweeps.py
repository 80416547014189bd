"""Runs the sweeps of what checkpoints hold, and prints a table of them: `make sweeps`.

    python tests/sweeps.py [--all] [SWEEP ...]

Without --all, each sweep runs the share of its cases that every run of the tests has.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# What is varied, and the tests that vary it against the library that is the reference.
SWEEPS = {
    "fields": ("exporter/test_config_sweep.py", "exporter/test_config.py"),
    "rotary": ("exporter/test_gguf_rope.py", "exporter/test_models_families.py"),
    "ties": ("exporter/test_checkpoint.py", "exporter/test_nested_models.py"),
    "windows": ("delegates/test_windows.py", "exporter/test_models_features.py"),
    "regexes": ("exporter/test_tokenizer_patterns.py",),
    "tokenizers": (
        "exporter/test_special_tokens.py",
        "exporter/test_tokenizer_classes.py",
        "exporter/test_tokenizer_gguf.py",
        "exporter/test_tokenizer_random.py",
    ),
    "packings": (
        "exporter/test_checkpoint_gptq.py",
        "exporter/test_checkpoint_packed.py",
        "exporter/test_fp8.py",
        "exporter/test_mlx_weights.py",
        "exporter/test_mxfp4.py",
        "exporter/test_packed_by_libraries.py",
    ),
    "files": ("exporter/test_odd_weights.py", "exporter/test_unusual_files.py"),
    "adapters": ("exporter/test_adapter.py", "exporter/test_adapters_apart.py"),
}
_COLUMNS = ("passed", "failed", "skipped")


@dataclass
class _Counts:
    """A plugin of pytest that counts outcomes by the test's file."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = report.nodeid.partition("::")[0].removeprefix("tests/")
        self.seconds[path] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcomes.setdefault(path, Counter())[report.outcome] += 1


def table(counts: _Counts, names: list[str]) -> str:
    """The counts of each sweep, as lines of text."""
    lines = [f"{'sweep':<12}" + "".join(f"{column:>9}" for column in (*_COLUMNS, "seconds"))]
    for name in names:
        found: Counter[str] = Counter()
        for path in SWEEPS[name]:
            found.update(counts.outcomes.get(path, Counter()))
        seconds = sum(counts.seconds[path] for path in SWEEPS[name])
        numbers = "".join(f"{found[column]:>9}" for column in _COLUMNS)
        lines.append(f"{name:<12}{numbers}{seconds:>9.1f}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    everything = "--all" in arguments
    names = [argument for argument in arguments if argument != "--all"] or list(SWEEPS)
    unknown = [name for name in names if name not in SWEEPS]
    if unknown:
        print(f"there is no sweep {unknown[0]!r}; there are {', '.join(SWEEPS)}", file=sys.stderr)
        return 2
    paths = [str(TESTS / path) for name in names for path in SWEEPS[name]]
    counts = _Counts()
    marks = ["-m", "soak or not soak"] if everything else []
    status = pytest.main(["-q", "--no-header", *marks, *dict.fromkeys(paths)], plugins=[counts])
    print(table(counts, names))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
