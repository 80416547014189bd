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
from exporter.catalogue.names import check_model, no_program
from exporter.command_line.brief import BriefCommand
from exporter.command_line.filled import FilledPath, FilledText, require_input
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
_OTHER_MODES = {"--chat", "--embed", "--audio", "--input", "--output", "--method", "--verify"}
_AS_TEXT = "stored as text: "  # how a report begins that tells why a template is not compiled
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
@click.option("--quant", metavar="SCHEME", default="gptq4", help="As for thimble-export.")
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
    runner, such as -n 100 or --temperature 0.7: they come after MODEL, and thimble-runner --help
    lists them.
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
        chats = not complete and not _OTHER_MODES & _names(options)
        _check(model, quant, chat_template, chats)
        _check_options(prompt, prompt_file, options)
        file = exported(model, quant, chat_template, quiet)
    arguments = [*_prompt(prompt, prompt_file), *(["--quiet"] if quiet else []), *options]
    if not complete and not _OTHER_MODES & _names(options):
        template = _template(file)
        if template is None or template.startswith("compiled"):
            arguments.append("--chat")
        else:
            is_asked = prompt is not None or prompt_file is not None
            _tell_of_no_chat(model, template, is_asked, quiet)
            if "--system" in _names(options):
                sentence = f"{model} has no chat template that --system could be put into"
                fail(RunnerError(f"{sentence}; put that text into -p, or use --chat-template"), 2)
    # Not as a path, which loses the ./ before a name such as -p.pte.
    become_runner([model if is_program(model) else str(file), *arguments])


def _tell_of_no_chat(model: str, template: str, is_asked: bool, quiet: bool) -> None:
    """Says that the runner cannot chat; exits with 2 if it was to."""
    reason = f" ({template.removeprefix(_AS_TEXT)})" if template.startswith(_AS_TEXT) else ""
    kind = "a chat template that the runner cannot use" if reason else "no chat template"
    if not is_asked:
        sentence = f"{model} has {kind}{reason} and only continues texts: pass -p TEXT, -f FILE"
        more = "" if is_program(model) else ", or a template with --chat-template"
        fail(RunnerError(f"{sentence}, or -p - for standard input{more}"), 2)
    if reason and not quiet:
        click.echo(f"{model} has {kind}{reason}: the text is continued as it is", err=True)


def _check(model: str, quant: str, chat_template: Path | None, chats: bool) -> None:
    """Exits with 2 if there can be no such export."""
    try:
        if chat_template is not None:
            from exporter.chat_template import require_chat_template

            require_chat_template(chat_template, chats)
        check_model(model)
        Scheme(quant)
        check_files(model, None, ())
    except (ExportError, QuantError) as error:
        fail(error, 2)


def _check_options(prompt: str | None, prompt_file: str | None, options: Sequence[str]) -> None:
    """Exits as the runner does if it refuses these, whether it chats or not: before an export,
    which may take hours. It reads them first, and then finds that a device is no model."""
    names = _names(options)
    if "--adapter" in names:
        raise click.UsageError(
            "--adapter chooses one of those in a .pte: write that first, with thimble-export "
            "--adapter NAME=DIR, and name it as MODEL."
        )
    is_input = "-" in (prompt, prompt_file)
    if is_input:
        require_input()
    arguments = [*(["-p", ""] if is_input else _prompt(prompt, prompt_file)), *options]
    program = runner_program()
    for more in ([],) if _OTHER_MODES & names else ([], ["--chat"]):
        command = [str(program), os.devnull, *arguments, *more]
        told = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if told.returncode == 0 or f" {os.devnull} is not a file: name a .pte" in told.stderr:
            return
    click.echo(told.stderr, nl=False, err=True)
    sys.exit(told.returncode)


def _names(options: Sequence[str]) -> set[str]:
    return {option.partition("=")[0] for option in options}


def _program(model: str) -> Path:
    """Returns the file to run, which needs no export."""
    source = click.get_current_context().get_parameter_source
    for name in ("quant", "chat_template"):
        if source(name) is not ParameterSource.DEFAULT:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} has no effect on a .pte; leave it out.")
    if not os.path.isfile(model):
        fail(RunnerError(no_program(model)), 2)
    return Path(model)


def _prompt(prompt: str | None, prompt_file: str | None) -> Sequence[str]:
    if prompt_file is not None or prompt == "-":
        return ["-f", prompt_file or "-"]
    return [] if prompt is None else ["-p", prompt]


def _template(file: Path) -> str | None:
    """What the file tells of its chat template; empty if nothing, None if its model is of no
    language: the runner says which it is."""
    from exporter.file.pte import read_report

    try:
        model = read_report(file).get("model")
    except ExportError:  # written by another exporter; the runner says what it thinks of it
        return ""
    if not isinstance(model, dict) or "task" in model:
        return None
    return str(model.get("chat_template") or "")


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
