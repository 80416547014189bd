"""The options of `python -m devtools`. Large libraries are imported only when there is work to
do."""

import click

from devtools.commands.profile_options import diff, inspect
from devtools.commands.report import report
from devtools.commands.requests import BenchRequest, CompareRequest, QualityRequest
from devtools.commands.trace import trace
from exporter.command_line.brief import BriefGroup
from exporter.command_line.filled import FilledPath, FilledText
from exporter.command_line.request import takes
from exporter.command_line.version import version_option
from runtime.runner import KV_CACHES

_MOST_THREADS = 256
_MOST_SEQUENCES = 32
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}


class _Counts(click.ParamType):
    """Numbers such as 1,2,4.

    Args:
        what: "thread" or the like: each is a count of them.
        most: of one.
    """

    name = "N,N"

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.isdecimal() and 1 <= int(word) <= self._most for word in words):
            self.fail(
                f"{value!r} is not a list of {self._what} counts; write numbers from 1 to "
                f"{self._most}, such as 1,2.",
                param,
                context,
            )
        return tuple(dict.fromkeys(int(word) for word in words))


def _words(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split(",") if word))


@click.group(cls=BriefGroup, context_settings=_SETTINGS)
@version_option()
def main() -> None:
    """Tools for developers of models: profile, compare, benchmark."""


main.add_command(inspect)
main.add_command(diff)
main.add_command(trace)
main.add_command(report)


@main.command(context_settings=_SETTINGS, short_help="Measure a .pte's speed, start and memory.")
@click.argument("model", type=FilledPath("name a .pte file"))
@click.option(
    "--threads",
    type=_Counts("thread", _MOST_THREADS),
    help="Numbers of threads to measure with; by default 1, 2, 4 .. all cores.",
)
@click.option(
    "--repeats",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Samples of each measurement; by default 5, with --quick 2.",
)
@click.option(
    "--quick", is_flag=True, help="Only a short prefill, decoding at depth 0, and a small batch."
)
@click.option(
    "--sequences",
    type=_Counts("conversation", _MOST_SEQUENCES),
    help="Only the tokens a second that so many conversations write at once, such as 1,2,4,8,16: "
    "of Thimble's Engine, beside llama-batched-bench if it lies beside llama-bench.",
)
@click.option(
    "--kv-cache",
    type=click.Choice(KV_CACHES),
    default="default",
    help="The type of the CPU delegate's key/value cache.",
)
@click.option(
    "--huge-pages", is_flag=True, help="Let the CPU delegate copy the weights into huge pages."
)
@click.option(
    "--against",
    metavar="RIVAL",
    type=FilledText(),
    multiple=True,
    help="Also measure this engine, in turns with the model: xnnpack, cpu, openvino, "
    "onnxruntime-genai, ik-llama, a .pte file, or the path of llama-bench. All but a .pte run a "
    "model of the same shape with random weights. A name and :PYTHON, as in openvino:PYTHON, "
    "says which Python has that engine's packages; by default this one. Or the same model: "
    "recording (while its profile is recorded), adapter:NAME (with an adapter that the file "
    "keeps), or the path of another build's bench. Can be repeated.",
)
@click.option("--json", type=FilledPath(), help="Also write everything as JSON.")
@click.option("--plot", type=FilledPath(), help="Also draw a chart: a .png, .svg or .pdf file.")
@click.option(
    "--cache",
    type=FilledPath("name a directory"),
    help="Directory for the models of other engines; by default thimble/bench in the user's "
    "cache directory.",
)
@click.option(
    "--gguf-type",
    metavar="TYPE",
    type=FilledText(),
    multiple=True,
    help="Quantization of the models of llama-bench and ik-llama; by default Q4_0 (every tensor) "
    "and Q4_K_M.",
)
@click.option(
    "--gguf",
    metavar="FILE",
    multiple=True,
    type=FilledPath(),
    help="Run llama-bench or ik-llama on this file, which must hold the same model. Can be "
    "repeated.",
)
@takes(BenchRequest)
def bench(request: BenchRequest) -> None:
    """Measure a .pte: prefill, decoding at several depths, a small batch, start and memory;
    compare them with the limits of this machine.

    The limit of prefill is the rate of int8 products, the limit of decoding is the memory
    bandwidth; both are measured next to every sample. Engines take turns, so that changes of the
    machine affect all of them. The first token follows a prompt of 128 tokens; the peak of memory
    is for a context of 2048. Each is measured in a separate process.
    """
    from devtools.commands.bench import run_bench

    run_bench(request)


@main.command(context_settings=_SETTINGS, short_help="Find the line that a .pte computes wrongly.")
@click.argument("model", type=FilledPath("name a .pte file"))
@click.option(
    "--checkpoint",
    metavar="DIR|HUB_ID|FILE.py:NAME",
    type=FilledText(),
    required=True,
    help="The checkpoint that was exported; llama3 is the small model in the package. Of a module, "
    "the function that makes it.",
)
@click.option(
    "--etrecord",
    type=FilledPath(),
    help="The file that the export's --etrecord wrote; by default MODEL with the suffix .etrecord.",
)
@click.option(
    "--text",
    type=FilledPath(),
    help="UTF-8 text to run; by default a text in the package that calibration does not use.",
)
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(2),
    default=64,
    help="Number of tokens of the text to run, at most the context of the file.",
)
@click.option("--json", type=FilledPath(), help="Also write everything as JSON.")
@takes(CompareRequest)
def compare(request: CompareRequest) -> None:
    """Find the line of the model that a .pte computes wrongly.

    Runs the checkpoint in float, the quantized model and the .pte on the same tokens. The last half
    of them, but at most 32, run one by one, and those before at once. Compares the results of every
    line, layer by layer. It does so once with each model on its own values, and once with the same
    inputs of the layer. So each fault appears where it arises. At the end it compares the logits.

    A model of embeddings runs on all tokens at once, and makes one row of them, which is compared.
    A module runs on its example in float, and is compared with the .pte by line.
    """
    from devtools.commands.compare import run_compare

    run_compare(request)


@main.command(
    context_settings=_SETTINGS, short_help="Compare KL divergence against bits with llama.cpp."
)
@click.argument("model", metavar="MODEL.gguf", type=FilledPath("name a .gguf file"))
@click.option(
    "--llama-cpp",
    metavar="DIR",
    required=True,
    type=FilledPath("name a directory"),
    help="The directory with llama-imatrix, llama-quantize and llama-perplexity.",
)
@click.option(
    "--text",
    "texts",
    metavar="FILE",
    required=True,
    multiple=True,
    type=FilledPath(),
    help="UTF-8 text to measure on; may be repeated.",
)
@click.option(
    "--tokens", metavar="N", type=click.IntRange(512), default=8192, help="Tokens of each text."
)
@click.option(
    "--types",
    metavar="T,T",
    callback=_words,
    default="Q3_K_M,IQ3_S,IQ4_XS,Q4_K_M,Q5_K_M,Q6_K",
    help="llama.cpp's types; of each, a file of Thimble's with as many bits is made too.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Measure the file's own integers instead: run by llama.cpp, and kept by --quant keep.",
)
@click.option(
    "--quant",
    metavar="S,S",
    callback=_words,
    default="gptq4,rtn8",
    help="Schemes to measure as well.",
)
@click.option(
    "--calibration",
    metavar="FILE",
    type=FilledPath(),
    help="Text to calibrate both on; by default the exporter's, with what the model writes.",
)
@click.option("--json", type=FilledPath(), help="Also write the rows as JSON.")
@click.option("--plot", type=FilledPath(), help="Also draw KL against bits.")
@takes(QualityRequest)
def quality(request: QualityRequest) -> None:
    """Measure KL divergence against bits: Thimble's files and llama.cpp's of one float model.

    llama.cpp's types use an importance matrix from the text that Thimble's calibrate on. Their rows
    are padded to multiples of 256 where they need that; the zeros do not count as bits. They run
    with llama.cpp's own arithmetic. Both are scored on the second half of each 512 tokens.
    """
    from exporter.command_line.quiet import silence_known_noise, silence_native_noise

    silence_known_noise()  # before the imports that make it
    with silence_native_noise():
        from devtools.commands.quality import run_quality
    run_quality(request)
