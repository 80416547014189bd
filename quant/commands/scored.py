"""Models that give logits after every token: a checkpoint in float32, or a finished `.pte`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from delegates import get_delegate
from exporter.checkpoint import open_checkpoint
from exporter.model import CausalLM
from exporter.presets import preset_name, resolve_model
from exporter.pte import read_report
from exporter.source import EMBEDDED, EMBEDDED_PRESET
from exporter.tokenizer import compile_tokenizer
from quant.errors import QuantError


@dataclass(frozen=True)
class Scored:
    """A model to measure.

    Attributes:
        name: for people.
        logits: int64 (seq_len,) to float32 (seq_len, vocab_size), each time from an empty cache.
        longest: most tokens that `logits` takes.
        bos_id: what begins a text, or None.
        tokenizer: where its tokenizer's files lie, or None.
    """

    name: str
    logits: Callable[[Tensor], Tensor]
    longest: int
    bos_id: int | None
    tokenizer: Path | None


def open_scored(model: str) -> Scored:
    """Opens a `.pte`, a preset, a checkpoint directory or a hub id.

    Raises:
        ExportError, TokenizerError, QuantError: there is no such model, or none that runs here.
    """
    path = Path(model)
    return _open_pte(path) if path.is_file() else _open_checkpoint(model)


def checkpoint_source(model: str) -> str:
    """The directory or hub id of a preset, a directory or a hub id."""
    if preset_name(model) == EMBEDDED_PRESET:
        return str(EMBEDDED)
    return resolve_model(model).source


def _open_checkpoint(model: str) -> Scored:
    checkpoint = open_checkpoint(checkpoint_source(model))
    with torch.device("meta"):
        empty = CausalLM(checkpoint.config).eval()
    checkpoint.check(empty)
    checkpoint.load_into(empty, "")
    compiled = compile_tokenizer(checkpoint.directory)
    bos_id = checkpoint.config.bos_token_id if compiled.bos_id is None else compiled.bos_id
    return Scored(
        checkpoint.name,
        lambda tokens: empty.logits(tokens[None])[0],
        checkpoint.config.context_limit,
        bos_id,
        checkpoint.directory,
    )


def _open_pte(path: Path) -> Scored:
    report = read_report(path)
    name = report["delegation"]["delegate"]
    step = get_delegate(name).load(path)
    if step is None:
        raise QuantError(
            f"{path} runs on {name}, which this machine cannot run; evaluate it where it runs."
        )

    def logits(tokens: Tensor) -> Tensor:
        """A call gives the logits after its last token: so one call a token."""
        after = [
            step(tokens[None, at : at + 1], torch.tensor([at])).clone() for at in range(len(tokens))
        ]
        return torch.cat(after)

    facts = report["model"]
    return Scored(str(path), logits, facts["max_context_len"], facts["bos_id"], None)
