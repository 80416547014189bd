"""`python -m runtime tokenize`."""

import sys
from pathlib import Path

import click

from exporter.command_line.filled import FilledPath, Utf8Text, require_input, require_utf8
from runtime.commands.results import build_if_missing, fail
from runtime.errors import RunnerError


@click.command(short_help="Print the tokens of a text.")
@click.argument("model", type=FilledPath("name a .pte file"))
@click.argument("text", type=Utf8Text(may_be_empty=True))
@click.option("--ids", is_flag=True, help="Print only the ids, in one line.")
@click.option("--no-bos", is_flag=True, help="Without the token that begins a text.")
def tokenize(model: Path, text: str, ids: bool, no_bos: bool) -> None:
    """Print the tokens of TEXT, or of standard input if it is -: a line with id and text each.

    Bytes that are only a part of a character are shown as b'\\xc3'.
    """
    from runtime.runner import Runner

    build_if_missing("libthimble.so")
    try:
        if text == "-":
            require_input()
            text = sys.stdin.buffer.read().decode(errors="surrogateescape")
            require_utf8(text, "standard input")
        with Runner(model) as runner:
            tokens = runner.encode(text) if no_bos else runner.encode_prompt(text)
            if ids:
                click.echo(" ".join(map(str, tokens)))
                return
            for token in tokens:
                click.echo(f"{token}\t{_shown(runner.token_text(token))}")
    except RunnerError as error:
        fail(error, 2)


def _shown(data: bytes) -> str:
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)
