"""`python -m runtime generate`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from exporter.command_line.filled import FilledPath, FilledText, Utf8Text
from exporter.command_line.one_adapter import one_adapter
from runtime.answer_options import NUMBERS
from runtime.binding.c_arguments import MAX_COUNT
from runtime.commands.results import build_if_missing, fail, tell_of_no_effect, tell_sampling
from runtime.errors import RunnerError

INCOMPLETE = 3  # the exit code, as the runner's
_RATES = "prefill", "decode"
_Command = TypeVar("_Command", bound=Callable[..., object])


def _number_options(command: _Command) -> _Command:
    """An option for each number of an answer that has a text for it, in the table's order."""
    for number in reversed(NUMBERS):
        if number.help and number.default is not None:
            name = "--" + number.name.replace("_", "-")
            kind: click.ParamType = click.FloatRange(number.low, number.high)
            if number.type is int:
                high = None if number.high == MAX_COUNT else int(number.high)
                kind = click.IntRange(int(number.low), high)
            command = click.option(
                name,
                type=kind,
                help=f"{number.help} Default: the file's, else {number.default:g}.",
            )(command)
    return command


@click.command(short_help="Continue a prompt.")
@click.argument("model", type=FilledPath("name a .pte file"))
@click.option(
    "-p",
    "--prompt",
    type=Utf8Text(may_be_empty=True),
    required=True,
    help="The text to continue; may be empty.",
)
@click.option(
    "-n",
    "--tokens",
    type=click.IntRange(1),
    help="The most tokens to generate. Default: until the model ends its text or the context is "
    "full.",
)
@_number_options
@click.option(
    "--logit-bias",
    multiple=True,
    metavar="ID=VALUE",
    help="-100 to 100: added to the logit of a token; one option for each.",
)
@click.option(
    "--stop",
    type=Utf8Text(),
    multiple=True,
    help="The answer ends where the text would come; one option for each.",
)
@click.option(
    "--special-text", is_flag=True, help="Print the special tokens that the model writes."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    help="Makes sampling repeatable. Default: a new one every time.",
)
@click.option(
    "--json-schema",
    type=Utf8Text(),
    help="The answer is JSON that this schema describes.",
)
@click.option(
    "--regex",
    type=Utf8Text(),
    help="A regular expression that matches the complete answer.",
)
@click.option(
    "--choice",
    type=Utf8Text(),
    multiple=True,
    help="The answer is one of the texts; one option for each.",
)
@click.option("--grammar", type=Utf8Text(), help="The answer is a text of this GBNF grammar.")
@click.option(
    "--schema-unsupported",
    type=click.Choice(["refuse", "relax"]),
    default="refuse",
    show_default=True,
    help="What is not supported of a schema is an error, or left out and told.",
)
@click.option("--threads", type=click.IntRange(1, 256), help="Default: automatic.")
@click.option(
    "--adapter",
    type=FilledText(),
    multiple=True,
    callback=one_adapter,
    help="The name of an adapter that the model was exported with.",
)
@click.option(
    "--draft",
    type=FilledText(),
    metavar="ngram|FILE",
    help="Verify guesses of the next tokens: repetitions in the text, or of a smaller model.",
)
@click.option(
    "--require-signature",
    type=FilledText("name a file with an Ed25519 public key"),
    metavar="PUBLIC_KEY",
    help="Run only what the owner of this Ed25519 key signed, in FILE.sig.",
)
def generate(
    model: Path,
    prompt: str,
    tokens: int | None,
    threads: int | None,
    adapter: str | None,
    draft: str | None,
    require_signature: str | None,
    choice: tuple[str, ...],
    logit_bias: tuple[str, ...],
    **options: Any,
) -> None:
    """Continue a prompt: the text goes to standard output, everything else to standard error."""
    from runtime.runner import Runner

    if options["schema_unsupported"] == "relax" and options["json_schema"] is None:
        raise click.UsageError("--schema-unsupported has no effect without --json-schema.")
    build_if_missing("libthimble.so")
    try:
        runner = Runner(
            model, threads, adapter=adapter, draft=draft, require_signature=require_signature
        )
    except RunnerError as error:
        fail(error, 2)
    with runner:
        try:
            options |= {"choice": choice or None, "logit_bias": _read_bias(logit_bias)}
            given = {name: value for name, value in options.items() if value is not None}
            tell_sampling(runner.sampling, given)
            tell_of_no_effect(runner.sampling, given)
            answer = runner.generate(prompt, tokens, **options)
            for text in answer:
                click.echo(text, nl=False)
            click.echo()
            click.echo(summary(runner.stats), err=True)
            for what in runner.stats["left_out"]:
                click.echo(f"left out: {what}", err=True)
            if (reason := why_incomplete(runner.stats)) is not None:
                click.echo(f"the answer is not complete: {reason}", err=True)
                sys.exit(INCOMPLETE)
        except RunnerError as error:
            fail(error, 1 if float(runner.stats["prefill_s"]) > 0 else 2)


def _read_bias(values: tuple[str, ...]) -> dict[int, float]:
    """Reads ID=VALUE."""
    bias = {}
    for value in values:
        token, _, number = value.partition("=")
        try:
            bias[int(token)] = float(number)
        except ValueError:
            raise click.BadParameter(
                f"{value!r} must be ID=VALUE", param_hint="--logit-bias"
            ) from None
    return bias


def summary(stats: dict[str, Any]) -> str:
    rates = (
        f"{name} {stats[f'{name}_tokens_per_s']:.1f} tok/s"
        for name in _RATES
        if stats[f"{name}_tokens_per_s"]
    )
    counts = f"{stats['prompt_tokens']} prompt + {stats['generated_tokens']} generated tokens"
    again = stats["recomputed_tokens"]
    recomputed = [f"{again} computed again with the rotary table of its length"] if again else []
    return ", ".join((counts, *rates, *recomputed, f"stopped: {stats['stop_reason']}"))


def why_incomplete(stats: dict[str, Any]) -> str | None:
    """Why an answer is only the beginning of a text of its constraint; None if it is complete, or
    ends where the user wanted it."""
    if not stats["incomplete"]:
        return None
    match stats["stop_reason"]:
        case "length":
            return (
                f"the {stats['generated_tokens']} tokens of -n end it, and its constraint goes on "
                "behind them"
            )
        case "context_full":
            return "the context ends it, and its constraint goes on behind that"
        case "eos":
            return f"{stats['end_text']} ends it, and its constraint goes on behind that"
    return None
