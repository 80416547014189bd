"""Runs a finished program on a text, and logs what each line computes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from devtools.compare.graph_values import Collector, LoggedRows
from devtools.compare.logged import Log
from devtools.compare.rows import Calls
from devtools.errors import DevtoolsError
from devtools.profile.etrecord import Record
from exporter.file.report import ORIGINAL_CONTEXT
from runtime.watch import WatchedProgram

_MOST_DECODED = 32  # tokens that are run one by one: enough for every decoding kernel


def run_program(
    path: Path, report: dict[str, Any], record: Record, tokens: Tensor, log: Log
) -> tuple[list[LoggedRows], Tensor, Calls]:
    """Runs a `.pte` with every output logged: a prefill, then tokens one by one.

    Args:
        tokens: int64 (tokens,).
        log: where the outputs go.

    Returns:
        What it logged, the logits (calls, vocab_size) and how it was called.

    Raises:
        RunnerError: the program cannot be watched.
        DevtoolsError: it shows nothing.
    """
    facts = report["model"]
    calls = _calls(len(tokens), facts["max_seq_len"], facts.get(ORIGINAL_CONTEXT, 0))
    logits = []
    with watched(path, record, log, report["model"]["vocab_size"]) as (program, collector):
        for call, (start, length) in enumerate(zip(calls.starts, calls.lengths, strict=True)):
            collector.begin_call(call)
            given = tokens[start : start + length].tolist()
            last = program.call(given, start, collector.take)
            logits.append(torch.frombuffer(last, dtype=torch.float32))
        return collector.rows(), torch.stack(logits), calls


@contextmanager
def watched(
    path: Path, record: Record, log: Log, width: int
) -> Iterator[tuple[WatchedProgram, Collector]]:
    """Opens a file to be run in the block, and what keeps the values of its calls.

    Raises:
        RunnerError: the program cannot be watched.
        DevtoolsError: it shows nothing.
    """
    collector = Collector(record, log)
    with WatchedProgram(path, width) as program:
        yield program, collector
    if collector.is_empty:
        raise DevtoolsError(
            "the program logged no output; use an ExecuTorch that records events, such as its "
            "Python package."
        )


def _calls(count: int, longest: int, original: int) -> Calls:
    """Calls of a text by one rotary table, which the first one chooses: a text of more than
    `original` tokens begins with as many."""
    decoded = count - 1 if longest == 1 else min(count // 2, _MOST_DECODED)
    if count > original > 0:
        decoded = min(decoded, count - original - 1)
    first = count - decoded
    lengths = [longest] * (first // longest) + [first % longest] * bool(first % longest)
    prefill = len(lengths)
    lengths += [1] * decoded
    starts = [sum(lengths[:call]) for call in range(len(lengths))]
    return Calls(starts, lengths, prefill)
