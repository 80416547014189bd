"""Quantizes a checkpoint and stores the layers in the cache, in one process or several."""

import io
import json
import os
import resource
import sys

import click
import torch

from exporter.command_line.interruption import say_from_now
from exporter.commands.display import Display
from exporter.errors import ExportError
from exporter.options import ExportOptions
from exporter.pipeline import load_quantized
from exporter.plan.plan import Plan
from exporter.plan.planning import plan_quantization, read_plan
from exporter.tokenizer import TokenizerError
from quant.cache.place import default_directory
from quant.commands.quantize_request import Request
from quant.errors import QuantError
from quant.machine.distributed import joined, own_device
from quant.machine.freed_memory import reusing_freed_memory
from quant.machine.memory_size import parse_size, show_size
from quant.machine.speed import matmul_gflops
from quant.measure.format_numbers import with_error
from quant.report import QuantReport
from quant.scheme import mixes_by_default


def run_fill(request: Request) -> None:
    """Quantizes and, on the first rank, prints the result; exits with 2 if the request is not
    possible, with 1 if the work failed."""
    began = False  # what each rank does for itself
    try:
        device = own_device(request.device)
        with joined(device) as ranks:
            listener = Display(sys.stderr if ranks.first else io.StringIO())
            plan = read_plan(_options(request, device), listener, ranks)
            with listener, reusing_freed_memory(plan.options.max_memory):
                began = True
                say_from_now("Interrupted; finished layers stay in the cache.")
                plan = plan_quantization(plan, listener)
                report = load_quantized(plan, listener)[1]
        cache = plan.resources.cache
        if cache is not None and cache.refused:
            raise QuantError(
                f"{cache.directory} could not store all layers; free some space, or choose another "
                "place with --cache."
            )
    except (QuantError, ExportError, TokenizerError) as error:
        rank = os.environ.get("RANK", "0")
        if began or rank == "0":  # what was asked for is wrong for all of them alike
            click.echo(
                f"{f'Rank {rank}: ' if began and rank != '0' else ''}Error: {error}", err=True
            )
        sys.exit(1 if began and listener.began_work else 2)
    if ranks.first:
        figures = _figures(plan, report)
        click.echo(json.dumps(figures) if request.as_json else _describe(figures))


def _options(request: Request, device: torch.device) -> ExportOptions:
    """Returns the exporter's options, so that both use the same cached layers."""
    cache = request.cache or default_directory()
    limit = request.max_memory
    return ExportOptions(
        model=request.model,
        out=cache / "unused.pte",
        tokenizer=request.tokenizer,
        scheme=request.chosen_scheme(),
        mixed=mixes_by_default(request.scheme, request.head_bits),
        calibration=request.calibration,
        calibration_tokens=request.calibration_tokens,
        imatrix=request.imatrix,
        cache=cache,
        max_memory=None if limit is None else parse_size(limit, "--max-memory"),
        device=device,
    )


def _figures(plan: Plan, report: QuantReport) -> dict[str, object]:
    quality, layers = report.quality, plan.checkpoint.config.num_hidden_layers
    ranks, device, speed = plan.resources.ranks, plan.resources.device, plan.resources.speed
    made = layers - report.cached_layers
    return {
        "model": plan.checkpoint.name,
        "scheme": report.scheme,
        "cache": str(plan.options.cache),
        "processes": ranks.count,
        "device": device.type,
        "layers": layers,
        "layers_from_cache": report.cached_layers,
        "calibration_tokens": report.calibration_tokens,
        "seconds": report.seconds,
        "seconds_per_layer": report.seconds / made if made else None,
        "hessian_gflops": speed.gflops("hessian"),
        "update_gflops": speed.gflops("update"),
        "matmul_gflops": matmul_gflops(device) * ranks.count if speed.seconds else None,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_gpu_memory": _peak_gpu_memory(device),
        "quality": quality.to_dict() if quality else None,
    }


def _peak_gpu_memory(device: torch.device) -> int | None:
    """Bytes of this process' GPU, if it has one."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def _describe(figures: dict[str, object]) -> str:
    """Returns the figures as readable lines."""
    count = figures["layers"]
    layers = f"{count} layer" if count == 1 else f"{count} layers"
    lines = [
        f"{figures['model']} by {figures['scheme']}: {layers} in {figures['cache']}, "
        f"{figures['layers_from_cache']} of them from earlier runs"
    ]
    seconds = figures["seconds_per_layer"]
    assert isinstance(figures["peak_memory"], int)
    if isinstance(seconds, float):
        lines.append(
            f"{seconds:.1f} s for each other layer by {figures['processes']} process"
            f"{'es' if figures['processes'] != 1 else ''}, peak memory "
            f"{show_size(figures['peak_memory'])}"
        )
    rates = [figures[f"{part}_gflops"] for part in ("hessian", "update", "matmul")]
    if all(isinstance(rate, float) for rate in rates):
        hessian, update, matmul = rates
        lines.append(
            f"Hessians at {hessian:.1f} GFLOP/s, updates at {update:.1f}; matrix products reach "
            f"{matmul:.1f} here"
        )
    quality = figures["quality"]
    if isinstance(quality, dict):
        lines.append(
            f"quality: KL {with_error(quality['kl'], quality['kl_error'], 4)} nats, top-1 "
            f"{quality['top1']:.1%} ({quality['tokens']} held-out tokens)"
        )
    return "\n".join(lines)
