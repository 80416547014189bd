"""The options of an export: the command line's flags as one value."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from delegates import DEFAULT_DELEGATE
from exporter.models.family import Family
from quant.machine.device import HOST
from quant.scheme import Scheme


@dataclass(frozen=True)
class ExportOptions:
    """One export.

    Attributes:
        model: a preset such as "llama3", a checkpoint directory or a hub id; None if `checkpoint`
            is enough.
        out: the `.pte` to write.
        checkpoint: the weights, if they are not at `model`.
        adapter: a directory or hub id of a LoRA adapter, which is merged into the weights.
        adapters: the name of each adapter that is kept apart, and its directory or hub id.
        family: the architecture; None: the family of the config's model_type.
        tokenizer: a tokenizer file or directory, if not the checkpoint's own.
        chat_template: a file of Jinja, if not the checkpoint's own.
        scheme: how weights are stored.
        bits: the most bits of a weight on average, scales included; 4 to 8 bits are mixed, or
            2 to 8 where that is below 4 for everything.
        max_size: the most bytes of the file, in the same way.
        mixed: whether 4 to 8 bits are mixed within the size of 4 in all layers and 8 in both ends,
            where the delegate stores 5 and 6 too.
        calibration: text to calibrate and measure on; None: the embedded model's text.
        calibration_tokens: for GPTQ; None: a number that depends on the model's size.
        imatrix: llama.cpp's importance matrix of the model, by which scales are searched.
        max_context_len: positions of the KV cache; None: as exporter.plan.lengths
            decides.
        max_seq_len: the most tokens in one call; None: max_context_len.
        delegate: a name in delegates.DELEGATES, or several in order of preference, as in
            "coreml,cpu".
        parts: whether the file also has the methods `token_embedding` and `text_decoder`, which
            stock ExecuTorch's MultimodalRunner calls.
        vision: whether a model that sees is exported with what sees, where the delegate runs it.
        vision_scheme: how the weights of what sees are stored; None: in int8, or in float where
            `scheme` is.
        calibration_images: a directory of pictures to calibrate and measure these on; None: those
            of the package.
        etrecord: file for the graphs that the profiler reads.
        cache: the directory for quantized layers, which are reused; None: no cache.
        max_memory: the most bytes of memory; None: no limit.
        device: where quantization runs.
    """

    model: str | None
    out: Path
    checkpoint: str | None = None
    adapter: str | None = None
    adapters: tuple[tuple[str, str], ...] = ()
    family: Family | None = None
    tokenizer: Path | None = None
    chat_template: Path | None = None
    scheme: Scheme = field(default_factory=Scheme)
    bits: float | None = None
    max_size: int | None = None
    mixed: bool = False
    calibration: Path | None = None
    calibration_tokens: int | None = None
    imatrix: Path | None = None
    max_context_len: int | None = None
    max_seq_len: int | None = None
    delegate: str = DEFAULT_DELEGATE
    parts: bool = False
    vision: bool = True
    vision_scheme: Scheme | None = None
    calibration_images: Path | None = None
    etrecord: Path | None = None
    cache: Path | None = None
    max_memory: int | None = None
    device: torch.device = HOST

    @property
    def inputs(self) -> list[str | Path]:
        """What the user named to read: files, directories, presets and hub ids."""
        adapters = [place for _, place in self.adapters]
        named = (
            *(self.model, self.checkpoint, self.adapter, self.tokenizer),
            *(self.chat_template, self.calibration, self.imatrix, self.calibration_images),
        )
        return [*adapters, *(path for path in named if path is not None)]

    @property
    def has_budget(self) -> bool:
        """Whether the user set one, over which 4 to 8 bits are spread."""
        return self.bits is not None or self.max_size is not None
