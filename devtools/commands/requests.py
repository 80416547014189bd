"""The arguments of the commands with many of them, as they were given."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from devtools.profile.profile_types import Phase
    from devtools.profile.rows import View


def default_counts() -> tuple[int, ...]:
    """Returns 1, 2, 4 ... and the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return (*(1 << power for power in range(cores.bit_length()) if 1 << power < cores), cores)


@dataclass(frozen=True)
class BenchRequest:
    """The arguments of bench."""

    model: Path
    threads: tuple[int, ...] | None
    repeats: int | None
    quick: bool
    sequences: tuple[int, ...] | None
    kv_cache: str
    huge_pages: bool
    against: tuple[str, ...]
    json: Path | None
    plot: Path | None
    cache: Path | None
    gguf_type: tuple[str, ...]
    gguf: tuple[Path, ...]

    @property
    def thread_counts(self) -> tuple[int, ...]:
        return self.threads or default_counts()

    @property
    def samples(self) -> int:
        return self.repeats or (2 if self.quick else 5)


@dataclass(frozen=True)
class CompareRequest:
    """The arguments of compare."""

    model: Path
    checkpoint: str
    etrecord: Path | None
    text: Path | None
    tokens: int
    json: Path | None


@dataclass(frozen=True)
class QualityRequest:
    """The arguments of quality."""

    model: Path
    texts: tuple[Path, ...]
    tokens: int
    llama_cpp: Path
    types: tuple[str, ...]
    keep: bool
    quant: tuple[str, ...]
    calibration: Path | None
    json: Path | None
    plot: Path | None


@dataclass(frozen=True)
class ViewRequest:
    """What to show of a profile.

    Raises:
        click.UsageError: --every-layer has no effect.
    """

    by: str
    every_layer: bool
    phase: str
    top: int

    def __post_init__(self) -> None:
        if self.every_layer and self.by != "module":
            raise click.UsageError(
                f"--every-layer has no effect on --by {self.by}; use --by module."
            )

    @property
    def view(self) -> "View":
        from devtools.profile.rows import View

        return View.EACH_MODULE if self.every_layer else View(self.by)

    @property
    def phases(self) -> tuple["Phase", ...]:
        from devtools.profile.profile_types import Phase

        return tuple(Phase) if self.phase == "all" else (Phase(self.phase),)


@dataclass(frozen=True)
class InspectRequest(ViewRequest):
    """The arguments of inspect."""

    profile: Path
    etrecord: Path
    limits: Path | None
    probe: bool
    threads: int | None
    json: Path | None
    csv: Path | None


@dataclass(frozen=True)
class DiffRequest(ViewRequest):
    """The arguments of diff: each side's runs and its ETRecord."""

    a: Path
    b: Path
    etrecord: Path
    etrecord_b: Path | None
    again_a: tuple[Path, ...]
    again_b: tuple[Path, ...]
    json: Path | None

    @property
    def runs_a(self) -> tuple[Path, ...]:
        return (self.a, *self.again_a)

    @property
    def runs_b(self) -> tuple[Path, ...]:
        return (self.b, *self.again_b)

    @property
    def record_b(self) -> Path:
        return self.etrecord_b or self.etrecord
