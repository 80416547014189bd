"""`python -m quant run`: the options; quant/commands/quantize.py does the work."""

import os
import sys

import click

from exporter.command_line.filled import FilledPath, FilledText
from exporter.command_line.quantization import calibration_options, scheme_options
from exporter.command_line.request import takes
from quant.commands.quantize_request import Request


@click.command(
    "run",
    short_help="Quantizes a model and stores its layers.",
    context_settings={"show_default": True},
)
@click.argument("model", type=FilledText("name a model such as llama3"))
@scheme_options
@calibration_options
@click.option(
    "--tokenizer",
    type=FilledPath("name a file or directory"),
    help="A tokenizer file or directory, if the checkpoint has none.",
)
@click.option(
    "--cache",
    type=FilledPath("name a directory", file_okay=False),
    help="Directory for the layers, which all processes must share; by default $THIMBLE_CACHE or "
    "the user's cache directory.",
)
@click.option(
    "--max-memory",
    metavar="SIZE",
    help="Memory limit of each process, a number and a unit such as 6GB.",
)
@click.option(
    "--device",
    metavar="NAME",
    default="auto",
    help="Device for quantization: auto (a GPU if there is one), cpu, cuda or cuda:N; each process "
    "uses its own GPU.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@takes(Request)
def run_command(request: Request) -> None:
    """Quantizes a checkpoint and stores the layers in the cache, from which the exporter takes
    them.

    Runs in one process, or in 2, 4 or 8: torchrun --nproc-per-node 4 -m quant run MODEL. They share
    the calibration text and the rows of each weight. The results are bit-identical.
    """
    from exporter.command_line.interruption import nothing_to_clean_up
    from exporter.command_line.quiet import silence_known_noise
    from exporter.command_line.waiting import wait_briefly
    from exporter.commands.checks import check_source
    from exporter.errors import ExportError
    from quant.errors import QuantError

    try:
        if request.scheme == "none":
            raise QuantError("--quant none does not quantize anything; use a scheme such as gptq4.")
        if request.scheme == "keep":
            raise QuantError("--quant keep makes no layers to store; use a scheme such as gptq4.")
        check_source(request.model, None)
        request.check()
    except (QuantError, ExportError) as error:
        if os.environ.get("RANK", "0") == "0":  # the same for all processes of torchrun
            click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    silence_known_noise()
    wait_briefly()
    with nothing_to_clean_up():
        from quant.commands.quantize import run_fill

    run_fill(request)
