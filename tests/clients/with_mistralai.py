"""mistralai: its word for a call that there must be is "any"."""

import cases
from mistralai.client import Mistral

client, endless, encoder = (
    Mistral(server_url=address, api_key=cases.KEY)
    for address in (cases.CHAT, cases.ENDLESS, cases.EMBEDDINGS)
)


def ask(messages=cases.MESSAGES, **options):
    answer = client.chat.complete(model=cases.MODEL, messages=messages, **options)
    return answer.choices[0].message


def stream():
    for event in client.chat.stream(model=cases.MODEL, messages=cases.MESSAGES):
        yield event.data.choices[0].delta.content


def schema():
    answer = client.chat.parse(cases.Person, model=cases.MODEL, messages=cases.MESSAGES)
    return answer.choices[0].message.parsed


def tools():
    asked = ask(tools=[cases.TOOL], tool_choice="any")
    results = [{**one, "name": "look"} for one in cases.results_of(asked.tool_calls)]
    return ask([*cases.MESSAGES, asked, *results], tools=[cases.TOOL]).content


def embeddings():
    answer = encoder.embeddings.create(model=cases.ENCODER, inputs=cases.TEXTS)
    return [one.embedding for one in answer.data]


def cancel():
    with endless.chat.stream(model=cases.MODEL, messages=cases.MESSAGES) as events:
        next(iter(events))


cases.report(
    chat=lambda: ask().content,
    stream=stream,
    schema=schema,
    tools=tools,
    embeddings=embeddings,
    cancel=cancel,
    overflow=lambda: ask(cases.TOO_LONG),
)
