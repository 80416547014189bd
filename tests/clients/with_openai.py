"""openai: chat completions and embeddings."""

import cases
from openai import OpenAI

client, endless, encoder = (
    OpenAI(base_url=address + "/v1", api_key=cases.KEY)
    for address in (cases.CHAT, cases.ENDLESS, cases.EMBEDDINGS)
)
ASKED = {"model": cases.MODEL, "messages": cases.MESSAGES}


def chat():
    return client.chat.completions.create(**ASKED).choices[0].message.content


def stream():
    for chunk in client.chat.completions.create(**ASKED, stream=True):
        yield chunk.choices[0].delta.content


def schema():
    answer = client.chat.completions.parse(**ASKED, response_format=cases.Person)
    return answer.choices[0].message.parsed


def tools():
    must = {"tools": [cases.TOOL], "tool_choice": "required"}
    message = client.chat.completions.create(**ASKED, **must).choices[0].message
    told = [*cases.MESSAGES, message, *cases.results_of(message.tool_calls)]
    answer = client.chat.completions.create(model=cases.MODEL, messages=told, tools=[cases.TOOL])
    return answer.choices[0].message.content


def embeddings():
    answer = encoder.embeddings.create(model=cases.ENCODER, input=cases.TEXTS)
    return [one.embedding for one in answer.data]


def cancel():
    with endless.chat.completions.create(**ASKED, stream=True) as chunks:
        next(iter(chunks))


def overflow():
    client.chat.completions.create(model=cases.MODEL, messages=cases.TOO_LONG)


cases.report(
    chat=chat,
    stream=stream,
    schema=schema,
    tools=tools,
    embeddings=embeddings,
    cancel=cancel,
    overflow=overflow,
)
