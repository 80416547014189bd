"""The options of `python -m quant`. Large libraries are imported only when there is work to do."""

import click

from exporter.command_line.brief import BriefGroup
from exporter.command_line.filled import FilledPath, FilledText
from exporter.command_line.one_adapter import one_adapter
from exporter.command_line.quantization import CALIBRATION_TOKENS
from exporter.command_line.request import takes
from exporter.command_line.version import version_option
from quant.commands.cache import cache_command
from quant.commands.compare_request import Request as CompareRequest
from quant.commands.eval_request import Request as EvalRequest
from quant.commands.quantize_cli import run_command
from runtime.runner import KV_CACHES

EPILOG = """\b
Examples:
  python -m quant eval model.pte --against ./my-model --text held_out.txt
  python -m quant eval ./my-model --text held_out.txt --json
  python -m quant eval model.pte --tasks hellaswag,lambada_openai --limit 200
  python -m quant compare ./my-model --calibration text.txt --held-out other.txt
  python -m quant cache --prune 5GB
  torchrun --nproc-per-node 2 -m quant run ./my-model
"""


@click.group(
    cls=BriefGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@version_option()
def main() -> None:
    """Measures models and quantization methods."""


@main.command(
    "eval", short_help="Measures the quality of a model.", context_settings={"show_default": True}
)
@click.argument("model", type=FilledText("name a model such as llama3"))
@click.option("--text", type=FilledPath("name a text file"), help="UTF-8 text.")
@click.option(
    "--against",
    type=FilledText("name a model such as llama3"),
    metavar="MODEL",
    help="The model to compare with, for KL and top-1; by default none.",
)
@click.option(
    "--tokenizer",
    type=FilledPath("name a file or directory"),
    help="A tokenizer file or directory; by default a checkpoint's own.",
)
@click.option(
    "--context",
    metavar="N",
    type=click.IntRange(min=2),
    help="Tokens of a window, at most the models' limit; by default 2048, or that limit if it is "
    "lower.",
)
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(min=2),
    help="Most tokens to read from the text; by default all.",
)
@click.option(
    "--separator",
    type=FilledText("write the string between documents"),
    help="The string between documents: each document then begins with BOS and a new window; "
    "by default the text is one document.",
)
@click.option(
    "--kv-cache",
    type=click.Choice(KV_CACHES),
    default="default",
    help="The type of a .pte's key/value cache (--delegate cpu); by default the one set in the "
    "file.",
)
@click.option(
    "--against-kv-cache",
    type=click.Choice(KV_CACHES),
    default="default",
    help="The same for the model of --against.",
)
@click.option(
    "--adapter",
    metavar="NAME",
    type=FilledText("name an adapter"),
    multiple=True,
    callback=one_adapter,
    help="An adapter that a .pte was exported with, kept apart; by default none.",
)
@click.option(
    "--against-adapter",
    metavar="NAME",
    type=FilledText("name an adapter"),
    multiple=True,
    callback=one_adapter,
    help="The same for the model of --against; by default none.",
)
@click.option(
    "--tasks",
    metavar="NAME[,...]",
    type=FilledText("name a task"),
    help="Instead of a text: tasks of the lm-evaluation-harness, which the extra lm-eval installs.",
)
@click.option(
    "--task-path",
    type=FilledPath("name a directory"),
    help="A directory of further tasks in YAML; by default none.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of documents of each task, from the first; by default all.",
)
@click.option(
    "--shots",
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of examples before each question; by default the task's own.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@takes(EvalRequest)
def eval_command(request: EvalRequest) -> None:
    """Measures a checkpoint or a .pte: perplexity, bits per byte, and with --against KL and top-1.

    As in the GPTQ paper, the complete text is tokenized, with BOS before it, and cut into
    consecutive windows of --context tokens. In each, every token but the first is predicted from
    those before it.
    """
    from quant.commands.evaluate import run_eval

    run_eval(request)


@main.command(
    "compare",
    short_help="Compares methods of quantization.",
    context_settings={"show_default": True},
)
@click.argument("model", type=FilledText("name a model such as llama3"), default="llama3")
@click.option(
    "--calibration",
    type=FilledPath("name a text file"),
    help="Text for calibration; by default the first nine tenths of the text in the package.",
)
@click.option(
    "--held-out",
    type=FilledPath("name a text file"),
    help="Text to measure on; by default the last tenth of the calibration text.",
)
@click.option(
    "--separator",
    type=FilledText("write the string between documents"),
    help="The string between documents in the held-out text; by default it is one document.",
)
@click.option(
    "--group-size",
    "group_sizes",
    multiple=True,
    type=int,
    default=(32, 128),
    metavar="N",
    help="Number of inputs that share a scale: 32, 64 or 128; may be repeated.",
)
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(min=2),
    default=4096,
    help="Number of held-out tokens.",
)
@click.option(
    "--calibration-tokens",
    metavar="N",
    type=CALIBRATION_TOKENS,
    default=32768,
    help="Number of tokens to calibrate on.",
)
@click.option(
    "--only", multiple=True, metavar="NAME", help="Row to compute; may be repeated; by default all."
)
@takes(CompareRequest)
def compare_command(request: CompareRequest) -> None:
    """Prints a Markdown table that compares methods on one model with the same protocol.

    MODEL is by default llama3, the small model in the package. The bits are those of a weight in
    the layers with a float16 for each group, as stock ExecuTorch stores it. A delegate of ours may
    need others, which an export prints. The text is cut into windows, so that a little more of it
    may be taken than asked for.
    """
    from quant.commands.compare import run_compare

    run_compare(request)


main.add_command(cache_command)
main.add_command(run_command)
