"""Renders chat templates with jinja2, set up as `transformers` sets it up."""

import json
from collections.abc import Callable
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Messages = list[dict[str, str]]
# Renders (messages, add_generation_prompt). Raises jinja2.TemplateError or what the template does.
Render = Callable[[Messages, bool], str]


class TemplateRefusalError(jinja2.TemplateError):
    """The template itself called `raise_exception`."""


class _GenerationBlock(Extension):
    """Accepts `{% generation %}` around what the assistant says; it only matters in training."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def load_template(source: str, bos_token: str, eos_token: str, has_clock: bool) -> Render:
    """Compiles a template.

    Args:
        has_clock: the template finds `strftime_now`, and may stamp today's date.

    Raises:
        jinja2.TemplateSyntaxError: `source` is no template.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    if has_clock:
        environment.globals["strftime_now"] = datetime.now().strftime
    template = environment.from_string(source)

    def render(messages: Messages, add_generation_prompt: bool) -> str:
        return template.render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            bos_token=bos_token,
            eos_token=eos_token,
        )

    return render


def _raise_exception(message: str) -> None:
    raise TemplateRefusalError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
