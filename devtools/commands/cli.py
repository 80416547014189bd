"""The options of `python -m devtools`. Heavy imports wait until there is work to do."""

import os
import sys
from pathlib import Path

import click

from devtools.commands.profile_options import diff, inspect
from devtools.commands.report import report
from devtools.commands.trace import trace
from exporter.commands.version import version_option

_MOST_THREADS = 256
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}


class _Counts(click.ParamType):
    """Numbers of threads, as 1,2,4."""

    name = "N,N"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.isdecimal() and 1 <= int(word) <= _MOST_THREADS for word in words):
            self.fail(
                f"{value!r} is no list of thread counts; write numbers from 1 to {_MOST_THREADS}, "
                "as 1,2.",
                param,
                context,
            )
        return tuple(dict.fromkeys(int(word) for word in words))


def _default_counts() -> tuple[int, ...]:
    """1, 2, 4 ... and all the cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return (*(1 << power for power in range(cores.bit_length()) if 1 << power < cores), cores)


@click.group(context_settings=_SETTINGS)
@version_option()
def main() -> None:
    """Tools for whoever makes models fast."""


main.add_command(inspect)
main.add_command(diff)
main.add_command(trace)
main.add_command(report)


@main.command(context_settings=_SETTINGS)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--threads",
    type=_Counts(),
    help="Thread counts to measure at; by default 1, 2, 4 .. all cores.",
)
@click.option(
    "--repeats",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Samples of each; by default 5, with --quick 2.",
)
@click.option(
    "--quick", is_flag=True, help="One short prefill, decoding at depth 0, a small batch."
)
@click.option(
    "--kv-cache",
    type=click.Choice(["default", "float16", "float32", "int8"]),
    default="default",
    help="What the CPU delegate keeps keys and values in.",
)
@click.option("--huge-pages", is_flag=True, help="Have the CPU delegate copy weights into those.")
@click.option(
    "--against",
    metavar="RIVAL",
    multiple=True,
    help="Measure that too, in turns: xnnpack, cpu or openvino, a .pte file, or the path of "
    "llama-bench: models of the same shape are made of random weights. Or the same model: "
    "recording (its profile all the time), or the path of another build's bench. May be given "
    "repeatedly.",
)
@click.option("--json", type=click.Path(path_type=Path), help="Also write everything as JSON.")
@click.option("--plot", type=click.Path(path_type=Path), help="Also draw it: a .png, .svg or .pdf.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Where rivals' models stay; by default thimble/bench in the user's cache directory.",
)
@click.option(
    "--gguf-type",
    metavar="TYPE",
    multiple=True,
    help="Quantization of llama-bench's models; by default Q4_0 (every tensor) and Q4_K_M.",
)
@click.option(
    "--openvino-python",
    metavar="PYTHON",
    type=click.Path(path_type=Path),
    help="An interpreter with the packages openvino and nncf; by default this one.",
)
def bench(
    model: Path,
    threads: tuple[int, ...] | None,
    repeats: int | None,
    quick: bool,
    kv_cache: str,
    huge_pages: bool,
    against: tuple[str, ...],
    json: Path | None,
    plot: Path | None,
    cache: Path | None,
    gguf_type: tuple[str, ...],
    openvino_python: Path | None,
) -> None:
    """Measures a .pte: prefill, decoding at depth, a small batch, start and memory, beside what
    this machine can do at most.

    Prefill is counted against the rate of int8 products, decoding against the reading of memory:
    both are probed next to every sample. Engines take turns, so that a machine that changes its
    mind changes it for all. The first token is that of a prompt of 128 tokens, and the peak of
    memory that of a context of 2048, both in a process of their own.
    """
    from devtools.commands.bench import Request, run_bench
    from devtools.commands.rivals import GGUF_TYPES, default_cache

    run_bench(
        Request(
            model=model,
            threads=threads or _default_counts(),
            repeats=repeats or (2 if quick else 5),
            quick=quick,
            kv_cache=kv_cache,
            huge_pages=huge_pages,
            against=against,
            json=json,
            plot=plot,
            cache=cache or default_cache(),
            gguf_types=gguf_type or GGUF_TYPES,
            openvino_python=openvino_python or Path(sys.executable),
        )
    )


@main.command(context_settings=_SETTINGS)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--checkpoint",
    metavar="DIR|HUB_ID",
    required=True,
    help="What it was exported from; llama3 is the model that ships with the package.",
)
@click.option(
    "--etrecord",
    type=click.Path(path_type=Path),
    help="What the export's --etrecord wrote; by default MODEL with the ending .etrecord.",
)
@click.option(
    "--text",
    type=click.Path(path_type=Path),
    help="UTF-8 text to run; by default one that ships with the package and that calibration "
    "never sees.",
)
@click.option(
    "--tokens", metavar="N", type=click.IntRange(2), default=64, help="How much of the text."
)
@click.option("--json", type=click.Path(path_type=Path), help="Also write everything as JSON.")
def compare(
    model: Path,
    checkpoint: str,
    etrecord: Path | None,
    text: Path | None,
    tokens: int,
    json: Path | None,
) -> None:
    """Finds the line that computes something wrong in a .pte.

    Runs the checkpoint in float, the quantized model and the .pte on the same tokens, half of them
    at once and the rest one by one, and compares what every line computed, decoder layer by decoder
    layer: once with each model on its own values, once with all that is before the layer equal, so
    that each fault shows where it arises. Ends with what became of the logits.
    """
    from devtools.commands.compare import Request, run_compare

    run_compare(Request(model, checkpoint, etrecord, text, tokens, json))
