"""The table of methods: quantizes, measures and times every row in the same way."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from exporter.catalogue.find import open_model
from exporter.catalogue.names import EMBEDDED
from exporter.checkpoint import Checkpoint
from exporter.command_line.running import RunningLines
from exporter.models.decoder import CausalLM
from exporter.plan.plan import empty_model
from exporter.tokenizer import compile_tokenizer, load_tokenizer
from quant.commands.checks import read_text
from quant.commands.compare_request import Request
from quant.commands.compare_rows import ROWS
from quant.commands.windows import score_windows
from quant.measure.format_numbers import with_error
from quant.measure.quality import compare_positions, summarize
from quant.measure.windows import WINDOW, calibration_windows, held_out_part
from quant.modules import drop_activation_rounding
from quant.quantize import quantize
from quant.scheme import Scheme

HEADER = (
    "| groups | method | bits | KL x 1000 | perplexity | KL x 1000, weights only | perplexity "
    "| CPU time |"
)


@dataclass(frozen=True)
class _HeldOut:
    """Windows int64 (seq_len,) and the float model's logits for all but their last token."""

    windows: list[Tensor]
    logits: list[Tensor]


@torch.no_grad()
def table(request: Request, running: RunningLines) -> Iterator[str]:
    """The lines of the table in Markdown, as they are measured.

    Args:
        running: says how far the row has come that is not there yet.

    Raises:
        ExportError, TokenizerError, QuantError: no such model, row or text.
    """
    checkpoint = open_model(request.model)
    encode = load_tokenizer(checkpoint.directory).encode
    bos_id = compile_tokenizer(checkpoint.directory).bos_id
    text = read_text(request.calibration or EMBEDDED / "calibration.txt")
    window = min(WINDOW, checkpoint.config.context_limit)
    calibration = calibration_windows(text, encode, request.calibration_tokens, window, bos_id)
    measured = held_out_part(text) if request.held_out is None else read_text(request.held_out)
    context = min(2 * WINDOW, checkpoint.config.context_limit)
    windows = score_windows(
        measured, encode, context, request.tokens, bos_id, request.separator
    ).windows
    running.begin("The float model")
    reference = _quantized(checkpoint, Scheme("none"), calibration, running)
    held_out = _HeldOut(windows, [_logits(reference.model, tokens) for tokens in windows])

    tokens = sum(len(window) - 1 for window in windows)
    perplexity = _figures(reference.model, held_out)[1]
    yield (
        f"{checkpoint.name}: calibrated on {calibration.numel()} tokens, measured on {tokens} "
        f"others, context {context}; perplexity in float32 {perplexity}"
    )
    yield f"\n{HEADER}\n|{'---|' * HEADER.count(' | ')}---|"
    for group_size in request.group_sizes:
        for name in request.only or ROWS:
            scheme, method = ROWS[name]
            row = f"{name}, groups of {group_size}"
            running.begin(row)
            chosen = Scheme(scheme, group_size, method=method)
            result = _quantized(checkpoint, chosen, calibration, running)
            running.begin(f"{row}, measured")
            with_activations = _figures(result.model, held_out)
            drop_activation_rounding(result.model)
            cells = [f"{group_size}", name, f"{result.bits:.3f}", *with_activations]
            cells += [*_figures(result.model, held_out), f"{result.seconds:.1f} s"]
            running.end()
            yield f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class _Quantized:
    """A model, the stored bits of a weight in its layers, the CPU time that it took."""

    model: CausalLM
    bits: float
    seconds: float


def _quantized(
    checkpoint: Checkpoint, scheme: Scheme, calibration: Tensor, running: RunningLines
) -> _Quantized:
    model = empty_model(checkpoint.config).eval()
    started = time.process_time()
    report = quantize(
        model,
        scheme,
        checkpoint,
        calibration,
        progress=lambda step: running.progress(step.done, step.total, step.seconds_left),
    )
    seconds = time.process_time() - started
    return _Quantized(model, report.size.linear_bits_per_weight, seconds)


def _logits(model: CausalLM, tokens: Tensor) -> Tensor:
    """After all of a window but its last token: float32 (seq_len - 1, vocab_size)."""
    return model.logits(tokens[None, :-1])[0]


def _figures(model: CausalLM, held_out: _HeldOut) -> list[str]:
    """KL and perplexity, each with its standard error."""
    quality = summarize(
        [
            compare_positions(reference, _logits(model, tokens), tokens[1:])
            for tokens, reference in zip(held_out.windows, held_out.logits, strict=True)
        ]
    )
    return [
        with_error(quality.kl * 1000, quality.kl_error * 1000, 1),
        with_error(quality.perplexity_quantized, quality.perplexity_quantized_error, 3),
    ]
