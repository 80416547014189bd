"""A run as JSON, for other programs and for later.

version      1
machine      cpu, cores, memory_bytes, system
model        file, name, delegate, scheme, group_size, head_bits (null if the two ends differ),
             runs_with (what our own delegate says of itself), file_bytes, weight_bytes_per_token,
             cache_bytes_per_position, state_bytes, shape (null if the layers differ)
settings     threads, repeats
engines      [name, model]: ours first
limits       one per thread count: threads; read_bytes_per_s and int8_operations_per_s (medians
             over the run; null where there is no probe); int8_unit
results      one per engine, thread count and workload: engine, threads, work, kind, tokens,
             depth, calls, sequences; seconds (every sample), median_s, tokens_per_s;
             limit_tokens_per_s (what the machine's limit allowed, median) and share_of_limit
             (median of each sample's share), null where nothing bounds it that was probed or, for
             rivals, where the bytes they read are not known
starts       one per engine and thread count: load_s, ttft_s (medians of *_samples), in seconds
             from the process's start; peak_memory_bytes, or null
ratios       ours against each rival, medians, above 1 where ours is better: against, threads,
             work (as in results, or "load", "first token", "memory"), ratio
batch_costs  a small batch's time over that of one row: engine, threads, rows, ratio
notes        sentences: what was left out, and why
"""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from devtools.bench.engine import Engine
from devtools.bench.measure import Limit, Measurements, Start, Work
from devtools.bench.shape import Model
from devtools.bench.workload import Plan

VERSION = 1


def make_report(
    path: Path, models: dict[str, Model], engines: Sequence[Engine], plan: Plan, run: Measurements
) -> dict[str, Any]:
    """The finished run under the keys above.

    Args:
        models: what is known of the engines' models, by the engines' names; ours is among them.
    """
    ours = engines[0].name
    model = models[ours]
    return {
        "version": VERSION,
        "machine": describe_machine(),
        "model": {
            "file": str(path),
            "name": model.name,
            "delegate": model.delegate,
            "scheme": model.scheme,
            "group_size": model.group_size,
            "head_bits": model.head_bits,
            "runs_with": model.runs_with,
            "file_bytes": model.file_bytes,
            "weight_bytes_per_token": model.weight_bytes_per_token,
            "cache_bytes_per_position": model.cache_bytes_per_position,
            "state_bytes": model.state_bytes,
            "shape": model.shape and model.shape.to_dict(),
        },
        "settings": {"threads": list(plan.threads), "repeats": plan.repeats},
        "engines": [{"name": engine.name, "model": str(engine.model)} for engine in engines],
        "limits": [_limit(limit) for limit in run.limits],
        "results": [_result(work, models.get(work.engine)) for work in run.works],
        "starts": [_start(start) for start in run.starts],
        "ratios": [
            ratio
            for engine in engines[1:]
            for ratio in (
                *_work_ratios(run, ours, engine.name),
                *_start_ratios(run, ours, engine.name),
            )
        ],
        "batch_costs": _batch_costs(run),
        "notes": run.notes,
    }


def describe_machine() -> dict[str, Any]:
    """The machine as its own system names it."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
    }


def limit_seconds(work: Work, model: Model, reached: float) -> float | None:
    """Seconds that one sample takes at the machine's limit; None where none was probed for it.

    Prefill makes int8 products, where the weights are integers; decoding reads weights and cache
    once a token, a small batch once a call; several sequences read the weights together.
    """
    workload = work.workload
    if workload.kind == "prefill":
        if reached <= 0.0 or model.scheme == "none":
            return None
        return model.prefill_operations(workload.tokens) / reached
    weights = model.weight_bytes_per_token
    if workload.kind == "batch":
        return workload.calls * (weights + model.context_bytes(workload.depth)) / reached
    depth = workload.depth + (workload.tokens - 1) / 2
    read = weights + workload.sequences * model.context_bytes(depth)
    return workload.tokens * read / reached


def _limit(limit: Limit) -> dict[str, Any]:
    operations = median(limit.operations_per_s) if limit.operations_per_s else 0.0
    return {
        "threads": limit.threads,
        "read_bytes_per_s": median(limit.bytes_per_s) if limit.bytes_per_s else None,
        "int8_operations_per_s": operations or None,
        "int8_unit": limit.unit,
    }


def _result(work: Work, model: Model | None) -> dict[str, Any]:
    workload = work.workload
    bounds = [limit_seconds(work, model, reached) for reached in work.limits] if model else []
    known = [
        (bound, taken)
        for bound, taken in zip(bounds, work.seconds, strict=False)
        if bound is not None
    ]
    return {
        "engine": work.engine,
        "threads": work.threads,
        "work": workload.name,
        "kind": workload.kind,
        "tokens": workload.tokens,
        "depth": workload.depth,
        "calls": workload.calls,
        "sequences": workload.sequences,
        "seconds": work.seconds,
        "median_s": median(work.seconds),
        "tokens_per_s": work.tokens_per_s,
        "limit_tokens_per_s": (
            workload.sample_tokens / median(bound for bound, _ in known) if known else None
        ),
        "share_of_limit": median(bound / taken for bound, taken in known) if known else None,
    }


def _start(start: Start) -> dict[str, Any]:
    return {
        "engine": start.engine,
        "threads": start.threads,
        "load_s": median(start.load_s),
        "load_s_samples": start.load_s,
        "ttft_s": median(start.ttft_s),
        "ttft_s_samples": start.ttft_s,
        "peak_memory_bytes": start.peak_bytes,
    }


def _work_ratios(run: Measurements, ours: str, rival: str) -> list[dict[str, Any]]:
    theirs = {(work.threads, work.workload): work for work in run.works if work.engine == rival}
    return [
        {
            "against": rival,
            "threads": work.threads,
            "work": work.workload.name,
            "ratio": work.tokens_per_s / theirs[work.threads, work.workload].tokens_per_s,
        }
        for work in run.works
        if work.engine == ours and (work.threads, work.workload) in theirs
    ]


def _start_ratios(run: Measurements, ours: str, rival: str) -> list[dict[str, Any]]:
    theirs = {start.threads: start for start in run.starts if start.engine == rival}
    ratios = []
    for start in run.starts:
        if start.engine != ours or start.threads not in theirs:
            continue
        other = theirs[start.threads]
        pairs = [
            ("load", median(other.load_s), median(start.load_s)),
            ("first token", median(other.ttft_s), median(start.ttft_s)),
        ]
        if start.peak_bytes and other.peak_bytes:
            pairs.append(("memory", other.peak_bytes, start.peak_bytes))
        ratios += [
            {"against": rival, "threads": start.threads, "work": work, "ratio": their / our}
            for work, their, our in pairs
        ]
    return ratios


def _batch_costs(run: Measurements) -> list[dict[str, Any]]:
    rows = {
        (work.engine, work.threads): work
        for work in run.works
        if work.workload.kind == "decode" and work.workload.depth == 0
    }
    return [
        {
            "engine": work.engine,
            "threads": work.threads,
            "rows": work.workload.tokens,
            "ratio": median(work.seconds)
            / work.workload.calls
            * rows[work.engine, work.threads].tokens_per_s,
        }
        for work in run.works
        if work.workload.kind == "batch" and (work.engine, work.threads) in rows
    ]
