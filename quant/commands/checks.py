"""Checks that need no large library: a wrong argument is reported before PyTorch is imported."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.catalogue.names import check_model
from exporter.file.pte import read_report
from quant.errors import QuantError


@dataclass(frozen=True)
class RunAs:
    """How a `.pte` is run.

    Attributes:
        kv_cache: one of runtime's KV_CACHES.
        adapter: the name of one that the file was exported with; None: none.
    """

    kv_cache: str = "default"
    adapter: str | None = None

    @property
    def set_kv_cache(self) -> str | None:
        """The type that was chosen, if it is not the file's own."""
        return None if self.kv_cache == "default" else self.kv_cache


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        QuantError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise QuantError(
            f"the text {path} cannot be read ({error.strerror}); name a UTF-8 text file."
        ) from None
    except UnicodeDecodeError as error:
        raise QuantError(
            f"the text {path} is not UTF-8 (byte {error.start}: {error.reason}); name a UTF-8 "
            "text file."
        ) from None


def require_for(owner: str, options: Mapping[str, object]) -> None:
    """Raises QuantError if one of the options has a value: they have an effect only with another,
    which was not given."""
    for option, value in options.items():
        if value is not None:
            raise QuantError(f"{option} {value} has no effect without {owner}; leave it out.")


def is_program(model: str) -> bool:
    """Whether the name of a model is a `.pte`, which need not have that suffix."""
    path = Path(model)
    return path.suffix != ".gguf" and os.path.isfile(path)  # False for impossible names


def _check_predicts(path: Path) -> None:
    """Raises QuantError for a `.pte` of another kind than a language model."""
    facts = read_report(path).get("model")
    if facts is None or "task" in facts:
        kinds = {"embedding": "a model of embeddings", "transcription": "a model that hears"}
        held = kinds.get(str((facts or {}).get("task")), "a module")
        raise QuantError(f"{path} holds {held}, not a language model; name a language model.")


def check_scored(model: str, run_as: RunAs) -> None:
    """Checks the name of a model to measure: a `.pte`, or as for an export.

    Raises:
        QuantError, ExportError: there is no such model, or it cannot be run so.
    """
    if is_program(model):
        _check_predicts(Path(model))
        return
    if Path(model).suffix == ".pte" and not os.path.exists(model):
        raise QuantError(f"There is no file {model}; check its path, or give a checkpoint.")
    for option, value in (
        ("--kv-cache", run_as.set_kv_cache),
        ("--adapter", run_as.adapter),
    ):
        if value is not None:
            raise QuantError(
                f"{model} is a checkpoint, for which {option} {value} has no effect; give a .pte "
                "that was exported with --delegate cpu."
            )
    check_model(model)
