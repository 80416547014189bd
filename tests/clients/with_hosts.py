"""Clients of companies that host models, together's and groq's: chat completions and embeddings."""

import importlib
import sys

import cases

WHICH = sys.argv[4]
Client = getattr(importlib.import_module(WHICH), WHICH.capitalize())

client, endless, encoder = (
    Client(base_url=address, api_key=cases.KEY)
    for address in (cases.CHAT, cases.ENDLESS, cases.EMBEDDINGS)
)


def ask(messages=cases.MESSAGES, **options):
    answer = client.chat.completions.create(model=cases.MODEL, messages=messages, **options)
    return answer.choices[0].message


def stream():
    chunks = client.chat.completions.create(model=cases.MODEL, messages=cases.MESSAGES, stream=True)
    for chunk in chunks:
        yield chunk.choices[0].delta.content


def schema():
    return ask(response_format=cases.RESPONSE_FORMAT).content


def tools():
    asked = ask(tools=[cases.TOOL], tool_choice="required")
    told = [*cases.MESSAGES, asked.model_dump(), *cases.results_of(asked.tool_calls)]
    return ask(told, tools=[cases.TOOL]).content


def embeddings():
    answer = encoder.embeddings.create(model=cases.ENCODER, input=cases.TEXTS)
    return [one.embedding for one in answer.data]


def cancel():
    chunks = endless.chat.completions.create(
        model=cases.MODEL, messages=cases.MESSAGES, stream=True
    )
    with chunks:
        next(iter(chunks))


cases.report(
    chat=lambda: ask().content,
    stream=stream,
    schema=schema,
    tools=tools,
    embeddings=embeddings,
    cancel=cancel,
    overflow=lambda: ask(cases.TOO_LONG),
)
