"""The options of `python -m exporter`. Large libraries are imported only when there is work to
do."""

import click
from click.core import ParameterSource

from exporter.command_line.brief import BriefCommand
from exporter.command_line.filled import FilledPath, FilledText
from exporter.command_line.quantization import calibration_options, scheme_options
from exporter.command_line.request import takes
from exporter.command_line.version import version_option
from exporter.commands.request import Request

_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}
EPILOG = """\b
Examples:
  python -m exporter llama3 --out model.pte
  python -m exporter --checkpoint meta-llama/Llama-3.2-1B --out model.pte
  python -m exporter model.Q8_0.gguf --out model.pte
  python -m exporter ./my-model --quant rtn4 --group-size 64 --out model.pte
  python -m exporter llama3 --checkpoint DIR --max-size 700MB --out model.pte
  python -m exporter llama3 --explain
  python -m exporter llama3 --delegate coreml,cpu --out model.pte
  python -m exporter module.py:make --out module.pte
  python -m exporter --inspect model.pte
"""


@click.command(cls=BriefCommand, epilog=EPILOG, context_settings=_SETTINGS)
@version_option()
@click.argument("model", type=FilledText("name a model such as llama3"), required=False)
@click.option("--out", type=FilledPath("name a .pte to write"), help="The .pte to write.")
@click.option(
    "--checkpoint",
    type=FilledText("name a directory, a GGUF file or a hub id"),
    metavar="DIR|GGUF|HUB_ID",
    help="Weights: a directory in the layout of Hugging Face, Meta or torchtune, a GGUF file, or a "
    "hub id. The name of a GGUF file may follow a hub id. Weights define the model's shape.",
)
@click.option(
    "--adapter",
    type=FilledText("name a directory or a hub id"),
    metavar="[NAME=]DIR|HUB_ID",
    multiple=True,
    help="A LoRA adapter, as PEFT saves it. Without a name it is merged into the weights, at most "
    "one. With a name it is kept apart in float16, and chosen at run time; may be repeated.",
)
@click.option(
    "--tokenizer",
    type=FilledPath("name a file or directory", exists=True),
    help="A tokenizer file or directory, if the checkpoint has none.",
)
@click.option(
    "--chat-template",
    type=FilledPath("name a file of Jinja"),
    metavar="FILE",
    help="A chat template, in place of the checkpoint's own.",
)
@click.option(
    "--no-vision",
    is_flag=True,
    help="Leave out what sees of a model that reads pictures.",
)
@click.option(
    "--vision-quant",
    metavar="SCHEME",
    help="How the weights of what sees are stored: rtn8 (8 bits), gptq4 (4 bits, calibrated), rtn4 "
    "or none (float32). By default rtn8, or none with --quant none.",
)
@click.option(
    "--calibration-images",
    type=FilledPath("name a directory of pictures", file_okay=False),
    metavar="DIR",
    help="Pictures to calibrate and measure what sees on; of each four, one is held out. By "
    "default some in the package.",
)
@click.option(
    "--vad",
    type=FilledPath("name silero_vad_16k.safetensors", dir_okay=False),
    metavar="FILE",
    help="The weights of Silero's detector of speech, silero_vad_16k.safetensors. What hears then "
    "cuts long sound in pauses, and writes no text where nobody speaks.",
)
@scheme_options
@click.option(
    "--bits",
    metavar="B",
    type=float,
    help="Mix 4 to 8 bits so that a weight takes B bits on average, scales included. Below what 4 "
    "for every part would take, mix 2 to 8.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    help="Mix bits likewise so that the file is at most this large; a number and a unit, such as "
    "700MB.",
)
@calibration_options
@click.option(
    "--max-context-len",
    metavar="N",
    type=int,
    help="Number of positions in the KV cache. By default the model's limit, but for cpu at most "
    "8192 (fewer, to 2048, where caches pass 512 MB), for others at most 2048.",
)
@click.option(
    "--max-seq-len",
    metavar="N",
    type=int,
    help="Largest number of tokens in one call; by default the full context.",
)
@click.option(
    "--delegate",
    metavar="NAME[,...]",
    default="cpu",
    show_default=True,
    help="What runs the program; see --list-delegates. With several, each takes the operators "
    "that it supports, in this order.",
)
@click.option(
    "--etrecord",
    type=FilledPath("name a file to write"),
    help="Also write the graphs, which a profiler needs to show source lines.",
)
@click.option(
    "--cache",
    type=FilledPath("name a directory", file_okay=False),
    help="Directory for quantized layers, which later exports reuse; by default $THIMBLE_CACHE "
    "or the user's cache directory.",
)
@click.option(
    "--max-memory",
    metavar="SIZE",
    help="Memory limit, a number and a unit such as 6GB. Data that does not fit is kept on disk "
    "next to the cache; an export that cannot meet the limit is refused at the start.",
)
@click.option(
    "--device",
    metavar="NAME",
    default="auto",
    help="Device for quantization: auto (a GPU if there is one), cpu, cuda or cuda:N.",
)
@click.option("--no-cache", is_flag=True, help="Do not reuse or store quantized layers.")
@click.option(
    "--list-delegates", is_flag=True, help="Print what each delegate supports and requires."
)
@click.option("--layer-errors", is_flag=True, help="Print the error after each decoder layer.")
@click.option(
    "--explain",
    is_flag=True,
    help="Explain, by line of the model, which sizes may vary, which operators were replaced, and "
    "which the delegate does not run; export nothing.",
)
@click.option(
    "--explain-json",
    type=FilledPath("name a file to write"),
    metavar="FILE",
    help="Like --explain, and also write it to FILE as JSON.",
)
@click.option(
    "--sign",
    type=FilledPath("name a file with an Ed25519 key"),
    metavar="KEY",
    help="Also sign the file with an Ed25519 private key, in OUT.sig, which a runner can require.",
)
@click.option(
    "--sign-file",
    type=FilledPath("name a .pte"),
    metavar="FILE",
    help="Sign a .pte that exists with the key of --sign; export nothing.",
)
@click.option(
    "--inspect",
    type=FilledPath("name a .pte"),
    metavar="FILE",
    help="Print the contents of a .pte; export nothing.",
)
@takes(Request)
def main(request: Request) -> None:
    """Exports a language model to one .pte file: weights, tokenizer, template, report.

    MODEL is a name such as llama3, llama3.2-3b or qwen3-0.6b, a checkpoint directory, a GGUF file,
    or a hub id. Without --checkpoint, llama3 is a small model in the package. With --checkpoint,
    MODEL can be left out. FILE.py:FUNCTION exports any other module: the function returns a
    torch.nn.Module and example inputs, optionally dynamic_shapes and calibration inputs. A module
    has --quant none (the default), int8 or int4, and --delegate xnnpack (the default).
    """
    nothing = request.model is None and request.checkpoint is None
    if request.sign_file is not None:
        _refuse_others("sign_file", "sign")
        if request.sign is None:
            raise click.UsageError("--sign-file signs with a private key; add --sign KEY.")
        from exporter.commands.signing import run_sign

        run_sign(request.sign_file, request.sign)
        return
    if request.inspect is not None:
        _refuse_others("inspect")
        from exporter.commands.inspect import run_inspect

        run_inspect(request.inspect)
        return
    if request.list_delegates:
        _refuse_others("list_delegates")
        from exporter.commands.delegates import run_list_delegates

        run_list_delegates()
        return
    if nothing:
        raise click.UsageError(
            "Name a MODEL such as llama3, a checkpoint with --checkpoint, or a file with --inspect."
        )
    if request.sign is None:
        _export(request)
        return
    if request.out is None:
        raise click.UsageError("--sign signs what is exported; add --out model.pte.")
    from exporter.commands.signing import check_signing, run_sign

    check_signing(request.out, request.sign)
    _export(request)
    run_sign(request.out, request.sign)


def _export(request: Request) -> None:
    """Writes the file, or explains it."""
    if request.model is not None and _names_module(request.model):
        from exporter.commands.module import run_module

        run_module(request, _options_given())
        return
    mixes = request.bits is not None or request.max_size is not None
    if request.head_bits is not None and mixes:
        raise click.UsageError(
            "--head-bits has no effect with --bits or --max-size, which choose the bits of every "
            "part; leave one of them out."
        )
    if request.cache is not None and request.no_cache:
        raise click.UsageError("--cache and --no-cache contradict each other; use only one.")
    from exporter.commands.hearing import names_hearing, run_hearing_export

    hearing = names_hearing(request)
    if hearing and (request.explain or request.explain_json is not None):
        raise click.UsageError("--explain does not support models that hear yet.")
    from exporter.commands import embedding

    encoder = embedding.names_encoder(request)
    source = click.get_current_context().get_parameter_source("scheme")
    default = source is ParameterSource.DEFAULT
    if request.explain or request.explain_json is not None:
        _refuse_beside("explain", _options_given() & {"out", "etrecord"})
        if encoder:
            embedding.run_embedding_explain(request, default)
            return
        from exporter.commands.explain import run_explain

        run_explain(request)
        return
    if request.out is None:
        raise click.UsageError("No output file was given; add --out model.pte.")
    if hearing:
        run_hearing_export(request, _options_given())
        return
    if encoder:
        embedding.run_embedding_export(request, request.out, default)
        return
    from exporter.commands.export import run_export

    run_export(request, request.out)


def _names_module(model: str) -> bool:
    from exporter.errors import ExportError
    from exporter.module.source_name import source_name

    try:
        return source_name(model) is not None
    except ExportError as error:
        raise click.UsageError(str(error)) from None


def _refuse_others(name: str, *allowed: str) -> None:
    """Refuses what is given beside an option that exports nothing, but for what it takes."""
    _refuse_beside(name, _options_given() - {name, *allowed})


def _refuse_beside(name: str, others: set[str]) -> None:
    params = click.get_current_context().command.params
    given = [
        param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        for param in params
        if param.name in others
    ]
    if given:
        raise click.UsageError(
            f"--{name.replace('_', '-')} exports nothing; leave out {' and '.join(given)}."
        )


def _options_given() -> set[str]:
    """The names of the parameters that the command line has."""
    context = click.get_current_context()
    given = click.core.ParameterSource.COMMANDLINE
    return {name for name in context.params if context.get_parameter_source(name) is given}
