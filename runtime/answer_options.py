"""The options of an answer: of Runner.generate(), Chat.say() and Engine.submit()."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from runtime.binding.c_arguments import (
    MAX_COUNT,
    Constraint,
    JsonSchema,
    check,
    check_text,
    check_whole,
    constraint,
    utf8_of,
)
from runtime.binding.library import Options
from runtime.binding.settings import Settings
from runtime.errors import RunnerError, shown


@dataclass(frozen=True)
class AnswerNumber:
    """A numeric option of an answer: a row of the library's table, thimble_answer_numbers().

    Attributes:
        type: float, int or bool.
        low, high: the least and the most that are allowed.
        default: of an option that is not given; None: the library's, which asks for nothing.
        help: of the command line's option; "": it has none, or an own one.
    """

    name: str
    type: type[float]
    low: float
    high: float
    default: float | None
    help: str = ""


NUMBERS = (
    AnswerNumber("max_new_tokens", int, 1, MAX_COUNT, None),
    AnswerNumber(
        "temperature", float, 0, 100, 0.0, "Divides the logits; 0: always the most likely token."
    ),
    AnswerNumber(
        "top_k", int, 0, MAX_COUNT, 0, "Sample from so many of the most likely tokens; 0: from all."
    ),
    AnswerNumber(
        *("top_p", float, 0, 1, 1.0),
        "Sample from the smallest set of tokens whose probabilities add up to it.",
    ),
    AnswerNumber(
        *("min_p", float, 0, 1, 0.0),
        "Sample from tokens at least so many times as likely as the most likely one.",
    ),
    AnswerNumber(
        *("repetition_penalty", float, 0.01, 100, 1.0),
        "Divides the logits of tokens that the text has, or multiplies those below 0.",
    ),
    AnswerNumber(
        *("presence_penalty", float, -2, 2, 0.0),
        "Taken from the logits of tokens that the answer has.",
    ),
    AnswerNumber("frequency_penalty", float, -2, 2, 0.0, "The same, as often as it has them."),
    AnswerNumber(
        *("dry_multiplier", float, 0, 100, 0.0),
        "DRY, a penalty for tokens that go on with a repetition of the text.",
    ),
    AnswerNumber(
        *("dry_base", float, 1, 100, 1.75),
        "The base of DRY's penalty.",
    ),
    AnswerNumber(
        *("dry_allowed_length", int, 0, MAX_COUNT, 2),
        "Tokens of a repetition that have no penalty of DRY.",
    ),
    AnswerNumber(
        *("dry_penalty_last_n", int, 0, MAX_COUNT, 64),
        "The last tokens, in which DRY looks for repetitions.",
    ),
    AnswerNumber(
        *("typical_p", float, 0, 1, 1.0),
        "Locally typical sampling: from tokens whose surprise is nearest to the expected one.",
    ),
    AnswerNumber(
        *("xtc_probability", float, 0, 1, 0.0),
        "XTC, at a token with this probability.",
    ),
    AnswerNumber(
        *("xtc_threshold", float, 0, 1, 0.1),
        "Of the tokens at least so likely, XTC leaves only the least likely.",
    ),
    AnswerNumber(
        *("dynatemp_range", float, 0, 100, 0.0),
        "By which temperature is lower where the model is certain, and higher where it is not.",
    ),
    AnswerNumber(
        *("dynatemp_exponent", float, 0, 100, 1.0),
        "The power of the entropy that temperature follows.",
    ),
    AnswerNumber(
        *("mirostat", int, 0, 2, 0),
        "Mirostat 1 or 2, in place of the filters of tokens; 0: none.",
    ),
    AnswerNumber(
        *("mirostat_tau", float, 0, 100, 5.0),
        "Mirostat's target: bits of surprise a token.",
    ),
    AnswerNumber(
        *("mirostat_eta", float, 0, 1, 0.1),
        "How fast Mirostat learns.",
    ),
    AnswerNumber("special_text", bool, 0, 1, False),
    AnswerNumber("logprobs", int, 0, 20, None),
)


class AnswerOptions(TypedDict, total=False):
    """The options of an answer beside `max_new_tokens`; None, and an option that is not given, are
    the default: where the file has one (Runner.sampling), that, else the one below.

    A token is chosen by the model's logits, changed in this order: logit_bias,
    repetition_penalty, presence_penalty and frequency_penalty, DRY, the constraint, temperature,
    top_k, typical_p, top_p, min_p, XTC. Temperature is the last, as in llama.cpp, with typical_p,
    XTC or dynatemp_range; with mirostat, that alone follows temperature. At most one constraint may
    be given: an answer that ends by itself is then such a text, and `stats` tells whether it is
    `incomplete`.

    Attributes:
        temperature: 0 to 100, by which logits are divided; 0, the default: always the most likely
            token.
        top_k: sample from so many of the most likely tokens; 0, the default: from all.
        top_p: 0 to 1: sample from the smallest set of tokens whose probabilities add up to it;
            default 1.
        min_p: 0 to 1: sample from tokens at least so many times as likely as the most likely one;
            default 0.
        seed: makes sampling repeatable; None, the default: a new seed every time.
        repetition_penalty: 0.01 to 100: divides the logits above 0, and multiplies those below, of
            tokens that the prompt or the answer has, as transformers does; default 1.
        presence_penalty: -2 to 2, as OpenAI's: taken from the logits of tokens that the answer has;
            default 0.
        frequency_penalty: -2 to 2, as OpenAI's: taken from them as often as the answer has the
            token; default 0.
        dry_multiplier: 0 to 100: of DRY, a penalty for tokens that go on with a repetition of
            `length` tokens: multiplier * base ** (length - allowed_length). A line break, a colon,
            a quotation mark or an asterisk ends a repetition. 0, the default: none.
        dry_base: 1 to 100; default 1.75.
        dry_allowed_length: tokens of a repetition that have no penalty; default 2.
        dry_penalty_last_n: the last tokens, in which repetitions are found; default 64.
        typical_p: 0 to 1: sample from the tokens whose surprise is nearest to the expected one, the
            fewest whose probabilities add up to it; default 1.
        xtc_probability: 0 to 1: of XTC, at each token; default 0.
        xtc_threshold: 0 to 1: of the tokens at least so likely, XTC leaves only the least likely;
            default 0.1.
        dynatemp_range: 0 to 100: temperature is lower by it where the model is certain, higher
            where all tokens are equally likely; default 0.
        dynatemp_exponent: 0 to 100: the power of the entropy, from 0 to 1, that temperature
            follows; default 1.
        mirostat: 0 to 2: Mirostat 1 or 2 in place of the filters; 0, the default: none.
        mirostat_tau: 0 to 100: its target, in bits of surprise a token; default 5.
        mirostat_eta: 0 to 1: how fast it learns; default 0.1.
        logit_bias: numbers from -100 to 100 that are added to the logits of tokens, by id; -100
            bans a token.
        stop: a text, or several, where the answer ends; neither the text nor what follows is
            passed on. Text that may be the beginning of one is held back until that is decided. Of
            several, the one that is complete first counts.
        logprobs: collects the logarithm of each token's probability, and this number of most
            likely tokens, 0 to 20: see TokenLogprob. The token that ends the answer is not among
            them, nor are those of a stop text. None, the default: not.
        special_text: True: special tokens that the model writes are passed on as their text, except
            for the one that ends the answer; False, the default: they are left out.
        json_schema: the answer is JSON that it describes, without white space, properties in the
            schema's order; a dictionary, a boolean, or JSON text.
        regex: matches the complete answer.
        choice: the answer is one of these.
        grammar: the answer is a text of this GBNF grammar, llama.cpp's notation.
        schema_unsupported: "relax": what is not supported of schemas is left out, and `left_out` of
            `stats` tells it, a sentence each; "refuse", the default: it is an error.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    typical_p: float
    xtc_probability: float
    xtc_threshold: float
    dynatemp_range: float
    dynatemp_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    logit_bias: Mapping[int, float] | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    special_text: bool
    json_schema: JsonSchema | None
    regex: str | None
    choice: Sequence[str] | None
    grammar: str | None
    schema_unsupported: str


@dataclass(frozen=True)
class Answer:
    """The options of an answer, checked, as the library takes them."""

    options: Options
    settings: Settings
    constraint: Constraint


def read_options(
    max_new_tokens: int | None, given: AnswerOptions, defaults: Mapping[str, float]
) -> Answer:
    """Checks the options of an answer; without a seed, there is a new one every time.

    Args:
        defaults: numbers of the file, for those that are not given.

    Raises:
        RunnerError: there is no option of a name, a value is out of range, or several constraints
            are given.
    """
    known = AnswerOptions.__annotations__
    for name in given:
        if name not in known:
            names = ", ".join(known)
            raise RunnerError(f"{name} is not an option of an answer: it must be one of {names}")
    given = {name: value for name, value in given.items() if value is not None}  # type: ignore[assignment]
    numbers = _numbers({**defaults, **given, "max_new_tokens": max_new_tokens})
    seed = given.get("seed")
    if seed is None:
        seed = secrets.randbits(64)
    # The other numbers of the struct are overruled by those of the settings.
    options = Options(top_p=1.0, seed=check_whole("seed", seed, 0, 2**64 - 1))
    constraint_of_answer = constraint(
        *(given.get("json_schema"), given.get("regex"), given.get("choice"), given.get("grammar")),
        given.get("schema_unsupported", "refuse"),
    )
    return Answer(options, _settings(given, numbers), constraint_of_answer)


def _numbers(given: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that are given, by name."""
    numbers = {}
    for number in NUMBERS:
        name, value = number.name, given.get(number.name)
        if value is None:
            continue
        if number.type is float:
            numbers[name] = float(check(name, value, number.low, number.high))
        else:
            whole = bool(value) if number.type is bool else value
            numbers[name] = float(check_whole(name, whole, int(number.low), int(number.high)))
    return numbers


def read_stops(stop: str | Sequence[str] | None) -> list[str]:
    """Returns the texts of the option `stop`.

    Raises:
        RunnerError: one is not a string, or empty.
    """
    stops: Any = stop if isinstance(stop, list | tuple) else [] if stop is None else [stop]
    texts = [check_text("a text of stop", text) for text in stops]
    if "" in texts:
        raise RunnerError("a text of stop is empty: give at least one character")
    return texts


def _settings(given: AnswerOptions, numbers: dict[str, float]) -> Settings:
    bias = given.get("logit_bias") or {}
    if not isinstance(bias, Mapping):
        raise RunnerError(f"logit_bias is {shown(bias)}, but must map tokens to numbers")
    for token, value in bias.items():
        check_whole("a token of logit_bias", token, 0, MAX_COUNT)
        check(f"logit_bias of token {token}", value, -100, 100)
    texts = [utf8_of("a text of stop", text) for text in read_stops(given.get("stop"))]
    return Settings(numbers, dict(bias), texts, given.get("logprobs"))
