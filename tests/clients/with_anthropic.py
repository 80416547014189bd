"""anthropic: messages."""

import cases
from anthropic import Anthropic

client = Anthropic(base_url=cases.CHAT, api_key=cases.KEY)
endless = Anthropic(base_url=cases.ENDLESS, api_key=cases.KEY)
ASKED = {"model": cases.MODEL, "max_tokens": 400, "messages": cases.MESSAGES}


def chat():
    return client.messages.create(**ASKED).content[0].text


def stream():
    with client.messages.stream(**ASKED) as answer:
        yield from answer.text_stream


def schema():
    return client.messages.parse(**ASKED, output_format=cases.Person).parsed_output


def tools():
    given = {
        "name": "look",
        "description": cases.FUNCTION["description"],
        "input_schema": cases.ARGUMENTS,
    }
    asked = client.messages.create(**ASKED, tools=[given], tool_choice={"type": "any"})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": cases.look(**block.input)}
        for block in asked.content
        if block.type == "tool_use"
    ]
    told = [
        *cases.MESSAGES,
        {"role": "assistant", "content": asked.content},
        {"role": "user", "content": results},
    ]
    answer = client.messages.create(model=cases.MODEL, max_tokens=400, messages=told, tools=[given])
    return answer.content[0].text


def cancel():
    asked = {**ASKED, "max_tokens": 16000}
    with endless.messages.stream(**asked) as answer:
        next(answer.text_stream)


def overflow():
    client.messages.create(**{**ASKED, "messages": cases.TOO_LONG})


cases.report(chat=chat, stream=stream, schema=schema, tools=tools, cancel=cancel, overflow=overflow)
