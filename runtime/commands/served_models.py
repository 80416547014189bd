"""The models that `python -m runtime serve` is given: their names, and what their files say."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.catalogue.names import no_program
from exporter.errors import ExportError
from quant.machine.memory_size import show_size
from runtime.errors import RunnerError

if TYPE_CHECKING:
    from runtime.server.model_process import ModelOptions
    from runtime.server.served import ServedModel

_PROCESS = 50_000_000  # bytes of a model's process beside the model
_MOST_SOUNDS = 8  # that wait
_ENGINES = "cpu"  # the delegate that answers several requests at once
_SHAPE = {"num_hidden_layers", "num_key_value_heads", "head_dim", "max_context_len", "max_seq_len"}
_TRANSCRIPTION = "thimble.transcription"  # what only a model that hears has
_SHARE = 0.8  # of the computer's memory
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def named(given: Sequence[str], name: str | None) -> dict[str, Path]:
    """Returns the files of models by their names.

    Args:
        given: each a file or NAME=FILE.
        name: of the only one.

    Raises:
        RunnerError: there is no such file, or two models have the same name.
    """
    found: dict[str, Path] = {}
    for text in given:
        own, equals, file = text.partition("=")
        if not equals or Path(text).is_file():
            own, file = "", text
        path = Path(file)
        if not path.is_file():
            raise RunnerError(no_program(path))
        own = own or name or path.stem
        if own in found:
            raise RunnerError(
                f"{found[own]} and {path} are both called {own!r}: give one another name, as "
                f"NAME={path}"
            )
        found[own] = path
    if name is not None and len(found) > 1:
        raise RunnerError("--name is for one model: give each as NAME=FILE")
    return found


def read_served(name: str, options: "ModelOptions", is_alone: bool) -> "ServedModel":
    """Returns what is known of a model before it is loaded.

    Args:
        options: of its process; what it does is read from the file.
        is_alone: it is loaded at once, and what is wrong with its file is told then.

    Raises:
        RunnerError: the file cannot be read.
    """
    from exporter.file.pte import read_report
    from exporter.file.template import read_templates
    from runtime.server.served import ServedModel

    report: dict[str, Any] = {}
    template = tool_template = None
    hears = False
    try:
        report = read_report(options.path)
        if report.get("model", {}).get("chat_template"):
            template, tool_template = read_templates(options.path)
        hears = _hears(options.path)
        if not is_alone and not hears and "model_type" not in report.get("model", {}):
            raise ExportError(f"{options.path} is a program of tensors, not a model of texts")
    except ExportError as error:
        if not is_alone:
            raise RunnerError(str(error).removesuffix(".")) from None
    file = options.path.stat()
    if hears:  # one sound at a time; others wait with all of their bytes
        waiting = min(options.waiting, _MOST_SOUNDS)
        options = replace(options, task="transcription", sequences=1, waiting=waiting)
    elif report.get("model", {}).get("task") == "embedding":
        options = replace(options, task="embedding")
    is_text = options.task == "text"
    caches = options.sequences * cache_bytes(report, options) if is_text else 0
    memory = file.st_size + _PROCESS + caches
    size, time = file.st_size, file.st_mtime
    return ServedModel(name, options, report, template, size, time, memory, tool_template)


def _hears(path: Path) -> bool:
    from exporter.file.pte import read_blob

    try:
        return bool(read_blob(path, _TRANSCRIPTION))
    except ExportError:
        return False


def cache_bytes(report: Mapping[str, Any], options: "ModelOptions") -> int:
    """Bytes of an answer's keys, values and states, at most."""
    from delegates import get_limits
    from exporter.plan.kv_caches import CACHED_BYTES, caches_of

    model, quantization = report.get("model", {}), report.get("quantization", {})
    if not _SHAPE <= model.keys():
        return 0
    own = "float32" if quantization.get("scheme") == "none" else "float16"
    own = "int8" if quantization.get("int8_heads") else own
    item = CACHED_BYTES[own if options.kv_cache == "default" else options.kv_cache]
    lengths = model["max_context_len"], model["max_seq_len"]
    caches = caches_of(_cached_layers(model), get_limits(_ENGINES), item, *lengths)
    states = 4 * model.get("gated_delta_rules", 0) * model.get("delta_state_size", 0)
    return sum(cache.size for cache in caches) + states


def _cached_layers(model: Mapping[str, Any]) -> list[tuple[int | None, int, int]]:
    """Window, heads of keys and size of a head of each layer with keys and values of its own."""
    others = model.get("short_convolutions", 0) + model.get("gated_delta_rules", 0)
    attentions = model["num_hidden_layers"] - others
    sizes = [model.get("sliding_window", 0), model["num_key_value_heads"], model["head_dim"]]
    columns = [size if isinstance(size, list) else [size] * attentions for size in sizes]
    layers = [(window or None, *rest) for window, *rest in zip(*columns, strict=True)]
    return layers[: attentions - model.get("num_kv_shared_layers", 0)]


def room_of(models: "Sequence[ServedModel]", given: int | None) -> float:
    """Returns the bytes that the loaded models may need.

    Args:
        given: by --max-memory; None: most of this computer's memory; without limit for one model.

    Raises:
        RunnerError: one of them does not fit alone.
    """
    if given is None and len(models) == 1:
        return math.inf
    most = int(_SHARE * _memory()) if given is None else given
    for served in models:
        if served.memory > most:
            limit = "--max-memory is" if given is not None else "this computer allows"
            raise RunnerError(
                f"{served.name!r} needs about {show_size(served.memory)} of memory, but {limit} "
                f"{show_size(most)}: set --max-memory to that much or more, or take a smaller "
                "--parallel or model"
            )
    return most


def _memory() -> int:
    """Bytes of this computer's memory, or of what this process may use of it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # there is no such file, or no limit
        return whole
