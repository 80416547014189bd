"""`thimble-run`: from a model's name to its answer."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource
from rich.table import Table

from exporter.catalogue.file_start import is_program
from exporter.catalogue.names import check_model
from exporter.command_line.brief import BriefCommand
from exporter.command_line.filled import FilledPath, FilledText
from exporter.command_line.version import version_option
from exporter.commands.checks import check_files
from exporter.errors import ExportError
from quant.errors import QuantError
from quant.scheme import Scheme
from runtime.commands.cached_model import exported, models_directory
from runtime.commands.results import become_runner, fail, runner_program
from runtime.errors import RunnerError

_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "ignore_unknown_options": True,
    "show_default": True,
}
_OTHER_MODES = ("--chat", "--embed", "--input", "--output", "--verify")
EPILOG = """\b
Examples:
  thimble-run HuggingFaceTB/SmolLM2-135M-Instruct
  thimble-run model.Q8_0.gguf --quant keep -p "Why is the sky blue?" -n 100
  thimble-run ./my-model -f question.txt --temperature 0.7
"""


@click.command(
    "run",
    cls=BriefCommand,
    short_help="Export a model if needed, and run it.",
    epilog=EPILOG,
    context_settings=_SETTINGS,
)
@version_option()
@click.argument("model", type=FilledText("name a model"), required=False)
@click.option(
    "-p",
    "--prompt",
    metavar="TEXT",
    help="A message, or - for standard input. It is put into the model's chat template, which "
    "thimble-runner -p does only with --chat.",
)
@click.option(
    "-f",
    "--prompt-file",
    type=FilledText("name a text file"),
    metavar="FILE",
    help="A message from a file.",
)
@click.option(
    "--complete",
    is_flag=True,
    help="Continue the text of -p or -f, also where the model has a chat template.",
)
@click.option("--quant", metavar="SCHEME", default="gptq4", help="As for python -m exporter.")
@click.option(
    "--chat-template",
    type=FilledPath("name a file of Jinja"),
    metavar="FILE",
    help="A chat template, in place of the model's own.",
)
@click.option("--quiet", is_flag=True, help="Print only answers, and errors.")
@click.option("--list-models", is_flag=True, help="Print the models that have a name, and exports.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def run_command(
    model: str | None,
    prompt: str | None,
    prompt_file: str | None,
    complete: bool,
    quant: str,
    chat_template: Path | None,
    quiet: bool,
    list_models: bool,
    options: tuple[str, ...],
) -> None:
    """Export a model if that has not been done, and chat with it or get one answer.

    MODEL is a name (see --list-models), a hub id, a checkpoint directory, a GGUF file or a .pte.
    Exports are kept in the user's cache, and used again. All further OPTIONS are those of the C++
    runner, such as -n 100 or --temperature 0.7: they come after MODEL.
    """
    if list_models:
        _list_models()
        return
    if model is None or model.startswith("-"):
        raise click.UsageError("Name a model first, such as llama3; see --list-models.")
    if prompt is not None and prompt_file is not None:
        raise click.UsageError("-p and -f are two prompts; use only one.")
    if is_program(model):
        file = _program(model)
    else:
        _check(model, quant, chat_template)
        _check_options(prompt_file, options)
        file = exported(model, quant, chat_template, quiet)
    arguments = [*_prompt(prompt, prompt_file), *(["--quiet"] if quiet else []), *options]
    if not complete and not set(_OTHER_MODES) & set(options):
        if _has_template(file):
            arguments.append("--chat")
        elif prompt is None and prompt_file is None:
            fail(
                RunnerError(
                    f"{model} has no chat template and only continues texts: pass -p TEXT, -f "
                    "FILE, -p - for standard input, or a template with --chat-template."
                ),
                2,
            )
    become_runner([str(file), *arguments])


def _check(model: str, quant: str, chat_template: Path | None) -> None:
    """Exits with 2 if there can be no such export."""
    if chat_template is not None and not chat_template.is_file():
        fail(RunnerError(f"{chat_template} does not exist: name a file of Jinja"), 2)
    try:
        check_model(model)
        Scheme(quant)
        check_files(model, None, ())
    except (ExportError, QuantError) as error:
        fail(error, 2)


def _check_options(prompt_file: str | None, options: Sequence[str]) -> None:
    """Exits as the runner does if it refuses these, whether it chats or not: before an export,
    which may take hours. It reads them first, and then finds that a device is no model."""
    if set(_OTHER_MODES) & set(options):
        return
    arguments = [*(["-p", ""] if prompt_file is None else ["-f", prompt_file]), *options]
    program = runner_program()
    for more in ([], ["--chat"]):
        command = [str(program), os.devnull, *arguments, *more]
        told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if told.returncode == 0 or os.devnull in told.stderr:
            return
    click.echo(told.stderr, nl=False, err=True)
    sys.exit(told.returncode)


def _program(model: str) -> Path:
    """Returns the file to run, which needs no export."""
    source = click.get_current_context().get_parameter_source
    for name in ("quant", "chat_template"):
        if source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} has no effect on a .pte; leave it out.")
    if not os.path.isfile(model):
        fail(RunnerError(f"{model} does not exist: give a .pte file"), 2)
    return Path(model)


def _prompt(prompt: str | None, prompt_file: str | None) -> Sequence[str]:
    if prompt_file is not None or prompt == "-":
        return ["-f", prompt_file or "-"]
    return [] if prompt is None else ["-p", prompt]


def _has_template(file: Path) -> bool:
    """Whether the runner can chat with the model."""
    from exporter.file.pte import read_report

    try:
        model = read_report(file).get("model")
    except ExportError:  # written by another exporter; the runner says what it thinks of it
        return False
    return isinstance(model, dict) and str(model.get("chat_template")).startswith("compiled")


def _list_models() -> None:
    from exporter.catalogue.names import ALIASES
    from exporter.catalogue.published import SHAPES
    from exporter.command_line.tables import print_table
    from exporter.commands.summary import megabytes

    table = Table("name", "from the hub")
    for name, _, source in SHAPES:
        table.add_row(name, source)
    print_table(table)
    aliases = ", ".join(f"{alias} is {name}" for alias, name in ALIASES.items())
    click.echo(f"{aliases}. thimble-run llama3 runs the small model in this package.")
    files = sorted(models_directory().glob("*.pte"))
    for file in files:
        click.echo(f"exported: {file} ({megabytes(file.stat().st_size)})")
