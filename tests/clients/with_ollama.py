"""ollama: its own interface. It has no word for a call that there must be."""

import cases
import ollama

client, endless = ollama.Client(cases.CHAT), ollama.Client(cases.ENDLESS)


def ask(messages=cases.MESSAGES, **options):
    return client.chat(cases.MODEL, messages, **options)


def chat():
    return ask().message.content


def stream():
    for part in ask(stream=True):
        yield part.message.content


def schema():
    return ask(format=cases.Person.model_json_schema()).message.content


def tools():
    call = {"function": {"name": "look", "arguments": cases.MADE_UP}}
    result = cases.look(**cases.MADE_UP)
    told = [
        *cases.MESSAGES,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_name": "look", "content": result},
    ]
    return ask(told, tools=[cases.look]).message.content


def cancel():
    parts = endless.chat(cases.MODEL, cases.MESSAGES, stream=True)
    next(parts)
    parts.close()


cases.report(
    chat=chat,
    stream=stream,
    schema=schema,
    tools=tools,
    cancel=cancel,
    overflow=lambda: ask(cases.TOO_LONG),
)
