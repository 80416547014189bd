"""Renders chat templates with jinja2, configured as in `transformers`."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_CLOCK = "strftime_now"
Messages = list[dict[str, Any]]
# Renders (messages, add_generation_prompt, **variables). Raises jinja2.TemplateError and nothing
# else.
Render = Callable[..., str]


class TemplateRefusalError(jinja2.TemplateError):
    """The template itself called `raise_exception`."""


class _GenerationBlock(Extension):
    """Accepts `{% generation %}` around assistant messages; it only matters in training."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def load_template(source: str, tokens: Mapping[str, str], has_clock: bool) -> Render:
    """Compiles a template.

    Args:
        tokens: the texts of special tokens by the names that it calls them; what is not there is
            undefined in it.
        has_clock: the template can call `strftime_now`, and so insert today's date.

    Raises:
        jinja2.TemplateError: `source` is not a template.
    """
    environment = _new_environment()
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    if has_clock:
        environment.globals[_CLOCK] = datetime.now().strftime
    with _only_template_errors():
        template = environment.from_string(source)

    fixed = {"tools": None, "documents": None, **tokens}

    def render(messages: Messages, add_generation_prompt: bool, **variables: object) -> str:
        values = {**fixed, **variables}
        with _only_template_errors():
            text = template.render(
                messages=messages, add_generation_prompt=add_generation_prompt, **values
            )
            text.encode("utf-8")  # or the half of a character would fail later
        return text

    return render


@cache
def variables_of(source: str) -> set[str]:
    """Returns the names that a valid template takes from outside."""
    return meta.find_undeclared_variables(_new_environment().parse(source))


def inserts_date(source: str) -> bool:
    """Whether a valid template does more with `strftime_now` than ask if there is such a thing."""
    tree = _new_environment().parse(source)
    named = sum(name.name == _CLOCK for name in tree.find_all(nodes.Name))
    asked = sum(
        test.name in ("defined", "undefined") and getattr(test.node, "name", "") == _CLOCK
        for test in tree.find_all(nodes.Test)
    )
    return named > asked


def _new_environment() -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"],
    )


@contextmanager
def _only_template_errors() -> Iterator[None]:
    """Turns every error inside a template, such as a division by zero, into a TemplateError."""
    try:
        yield
    except jinja2.TemplateError:
        raise
    except Exception as error:
        raise jinja2.TemplateRuntimeError(f"{type(error).__name__}: {error}") from None


def _raise_exception(message: str) -> None:
    raise TemplateRefusalError(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
