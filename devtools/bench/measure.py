"""The run: every engine in turn, round after round, and the machine's limits at each moment."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from devtools.bench.engine import Engine
from devtools.bench.server import Server
from devtools.bench.shape import Model
from devtools.bench.workload import Plan, Workload
from devtools.errors import DevtoolsError


class Listener(Protocol):
    """Is informed of the run's progress."""

    def begin(self, steps: int) -> None:
        """The run will have so many steps."""

    def step(self, what: str) -> None:
        """The next step begins."""

    def note(self, text: str) -> None:
        """Shows a sentence to the user."""


@dataclass
class Work:
    """One engine's samples of one workload at one number of threads.

    Attributes:
        seconds: of each sample.
        limits: beside each sample, what the machine could do: int8 operations a second for prefill,
            0 where there is no probe; bytes read a second for all else.
    """

    engine: str
    threads: int
    workload: Workload
    seconds: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        return self.workload.sample_tokens / median(self.seconds)


@dataclass
class Start:
    """One engine's starts at one number of threads: seconds to be ready, seconds to the first token
    of a prompt, both from the process's start; the most memory held, in bytes."""

    engine: str
    threads: int
    load_s: list[float] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)
    peak_bytes: int | None = None


@dataclass
class Limit:
    """What the machine can do with so many threads, as it was probed throughout the run.

    Attributes:
        unit: the instruction that multiplies int8; "" where there is no probe.
    """

    threads: int
    unit: str = ""
    bytes_per_s: list[float] = field(default_factory=list)
    operations_per_s: list[float] = field(default_factory=list)


@dataclass
class Measurements:
    """Everything that a run has measured, in order."""

    limits: list[Limit] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def measure(
    model: Model, engines: Sequence[Engine], plan: Plan, bench: Path, listener: Listener
) -> Measurements:
    """Runs the plan: for each number of threads, rounds of all workloads, in which every engine
    takes its turn; another goes first in each round.

    Args:
        model: the memory probe has its size.
        engines: the first is ours. A rival that fails is left out from then on, with a note.
        bench: build/bench.

    Raises:
        DevtoolsError: ours failed.
    """
    outcome = Measurements(notes=list(plan.notes))
    for engine in engines:
        _forget_pages(engine.model)
    steps = 1 + plan.repeats * len(plan.workloads)
    if plan.starts:
        steps += plan.repeats + 1
    listener.begin(len(plan.threads) * steps * len(engines))
    failed: set[str] = set()
    for threads in plan.threads:
        _measure_threads(_Scene(model, engines, plan, threads, listener, outcome, failed), bench)
    return outcome


@dataclass
class _Scene:
    model: Model
    engines: Sequence[Engine]
    plan: Plan
    threads: int
    listener: Listener
    outcome: Measurements
    failed: set[str]

    def attempt(self, engine: Engine, what: str) -> "_Attempt":
        self.listener.step(f"{engine.name}, {count(self.threads)}: {what}")
        return _Attempt(self, engine)

    def left(self, turn: int) -> list[Engine]:
        """The engines that still run; a different one is first in each turn."""
        first = turn % len(self.engines)
        turned = [*self.engines[first:], *self.engines[:first]]
        return [engine for engine in turned if engine.name not in self.failed]


class _Attempt:
    """A step of one engine: the failure of a rival ends its part in the run; ours ends the run."""

    def __init__(self, scene: _Scene, engine: Engine) -> None:
        self._scene = scene
        self._engine = engine

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> bool:
        if not isinstance(error, DevtoolsError) or self._engine is self._scene.engines[0]:
            return False
        self._scene.failed.add(self._engine.name)
        self._scene.outcome.notes.append(f"{self._engine.name} is left out: {error}")
        self._scene.listener.note(self._scene.outcome.notes[-1])
        return True


def _measure_threads(scene: _Scene, bench: Path) -> None:
    plan, threads, outcome = scene.plan, scene.threads, scene.outcome
    works = {
        (engine.name, workload): Work(engine.name, threads, workload)
        for workload in plan.workloads
        for engine in scene.engines
    }
    with ExitStack() as stack:
        machine = stack.enter_context(
            Server([bench, "--limits", str(threads)], "the limits' probe")
        )
        limit = Limit(threads, machine.greeting["unit"])
        for engine in scene.left(0):
            with scene.attempt(engine, "getting ready"):
                stack.callback(engine.close)
                fitting = [work for work in plan.workloads if fits(engine, work)]
                engine.open(threads, max((work.depth for work in fitting), default=0))
        for turn in range(plan.repeats):
            for workload in plan.workloads:
                reached = _probe(machine, limit, scene.model, workload)
                for engine in scene.left(turn):
                    if not fits(engine, workload):
                        continue
                    with scene.attempt(engine, workload.name):
                        work = works[engine.name, workload]
                        work.seconds.append(engine.measure(workload))
                        work.limits.append(reached)
    # Starts come last, alone in memory: none of the above is running any more.
    starts = _measure_starts(scene) if plan.starts else []
    outcome.limits.append(limit)
    outcome.works += [work for work in works.values() if len(work.seconds) == plan.repeats]
    if threads == plan.threads[0]:
        outcome.notes += [
            f"{engine.name} has no {workload.name}: its context holds {engine.max_context_len}."
            for engine in scene.left(0)
            for workload in plan.workloads
            if not fits(engine, workload)
        ]
    outcome.starts += [start for start in starts if len(start.load_s) == plan.repeats]


def _measure_starts(scene: _Scene) -> list[Start]:
    starts = {engine.name: Start(engine.name, scene.threads) for engine in scene.engines}
    for turn in range(scene.plan.repeats):
        for engine in scene.left(turn):
            with scene.attempt(engine, "start"):
                load_s, ttft_s = engine.start(scene.threads)
                starts[engine.name].load_s.append(load_s)
                starts[engine.name].ttft_s.append(ttft_s)
    for engine in scene.left(0):
        with scene.attempt(engine, "memory"):
            starts[engine.name].peak_bytes = engine.peak_memory(scene.threads)
    return list(starts.values())


def _forget_pages(model: Path) -> None:
    """Lets the system drop what it has of a file in memory, where it can: read again from the disk,
    each file lies in the largest pages that the system gives, and not as it happened to be
    written."""
    if model.is_file() and hasattr(os, "posix_fadvise"):
        with model.open("rb") as file:
            os.fsync(file.fileno())  # what is not yet on the disk cannot be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def count(threads: int) -> str:
    return f"{threads} thread" if threads == 1 else f"{threads} threads"


def fits(engine: Engine, workload: Workload) -> bool:
    """Whether the engine's context can hold the workload."""
    return engine.max_context_len is None or workload.end <= engine.max_context_len


def _probe(machine: Server, limit: Limit, model: Model, workload: Workload) -> float:
    """Measures the limit that bounds the workload, at this moment."""
    if workload.kind == "prefill":
        limit.operations_per_s.append(machine.ask("multiply")["operations_per_s"])
        return limit.operations_per_s[-1]
    limit.bytes_per_s.append(machine.ask("read", model.weight_bytes_per_token)["bytes_per_s"])
    return limit.bytes_per_s[-1]
