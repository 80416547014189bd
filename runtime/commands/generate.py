"""`python -m runtime generate`."""

from pathlib import Path
from typing import Any

import click

from runtime.build import BUILD_DIR, PRODUCTS
from runtime.commands.results import build_and_tell, fail
from runtime.errors import RunnerError


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-p", "--prompt", required=True, help="The text to continue; may be empty.")
@click.option("-n", "--tokens", type=click.IntRange(1), help="The most tokens to generate.")
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True)
@click.option("--top-k", type=click.IntRange(0), default=0, show_default=True, help="0: all.")
@click.option("--top-p", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@click.option("--min-p", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@click.option(
    "--repetition-penalty",
    type=click.FloatRange(0.01, 100),
    default=1.0,
    show_default=True,
    help="Divides the logits of tokens that the text has, or multiplies those below 0.",
)
@click.option(
    "--presence-penalty",
    type=click.FloatRange(-2, 2),
    default=0.0,
    show_default=True,
    help="Taken from the logits of tokens that the answer has.",
)
@click.option(
    "--frequency-penalty",
    type=click.FloatRange(-2, 2),
    default=0.0,
    show_default=True,
    help="The same, as often as it has them.",
)
@click.option(
    "--logit-bias",
    multiple=True,
    metavar="ID=VALUE",
    help="-100 to 100: added to the logit of a token; one option for each.",
)
@click.option(
    "--stop", multiple=True, help="The answer ends where the text would come; one option for each."
)
@click.option(
    "--special-text", is_flag=True, help="Print the special tokens that the model writes."
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Makes sampling repeatable.")
@click.option("--json-schema", help="The answer is JSON that this schema describes.")
@click.option("--regex", help="A regular expression that matches the complete answer.")
@click.option(
    "--choice", multiple=True, help="The answer is one of the texts; one option for each."
)
@click.option("--grammar", help="The answer is a text of this GBNF grammar.")
@click.option("--threads", type=click.IntRange(1, 256), help="Default: automatic.")
@click.option("--adapter", help="The name of an adapter that the model was exported with.")
@click.option(
    "--draft",
    metavar="ngram|FILE",
    help="Verify guesses of the next tokens: repetitions in the text, or of a smaller model.",
)
def generate(
    model: Path,
    prompt: str,
    tokens: int | None,
    threads: int | None,
    adapter: str | None,
    draft: str | None,
    choice: tuple[str, ...],
    logit_bias: tuple[str, ...],
    **options: Any,
) -> None:
    """Continue a prompt: the text goes to standard output, everything else to standard error."""
    from runtime.runner import Runner

    if not (BUILD_DIR / "libthimble.so").is_file():
        click.echo(build_and_tell("default", PRODUCTS), err=True)
    try:
        runner = Runner(model, threads, adapter=adapter, draft=draft)
    except RunnerError as error:
        fail(error, 2)
    with runner:
        try:
            options |= {"choice": choice or None, "logit_bias": _read_bias(logit_bias)}
            answer = runner.generate(prompt, tokens, **options)
            for text in answer:
                click.echo(text, nl=False)
            click.echo()
            click.echo(_summary(runner.stats), err=True)
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


def _summary(stats: dict[str, str | int | float]) -> str:
    return (
        f"{stats['prompt_tokens']} prompt + {stats['generated_tokens']} generated tokens, "
        f"prefill {stats['prefill_tokens_per_s']:.1f} tok/s, "
        f"decode {stats['decode_tokens_per_s']:.1f} tok/s, {stats['stop_reason']}"
    )
