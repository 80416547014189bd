"""mirascope: calls of a model by a decorator."""

import os

import cases

os.environ |= {"OPENAI_API_KEY": cases.KEY, "OPENAI_BASE_URL": cases.CHAT + "/v1"}
from mirascope import llm  # noqa: E402

MODEL = f"openai/{cases.MODEL}:completions"


@llm.call(MODEL)
def tell():
    return cases.PROMPT


@llm.call(MODEL, format=cases.Person)
def person():
    return cases.PROMPT


@llm.call(MODEL)
def too_long():
    return cases.PROMPT * 3000


cases.report(
    chat=lambda: tell().text(),
    stream=lambda: list(tell.stream().text_stream()),
    schema=lambda: person().parse(),
    overflow=lambda: too_long(),
)
