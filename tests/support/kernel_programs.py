"""The C++ test programs of the kernels; each runs all of its cases."""

from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "runtime" / "cpp" / "tests" / "kernels"
PROGRAMS = sorted(f"kernel_{path.stem}" for path in SOURCES.glob("*_test.cpp"))
