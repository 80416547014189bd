"""openai: responses."""

import json

import cases
from openai import OpenAI

client = OpenAI(base_url=cases.CHAT + "/v1", api_key=cases.KEY)
endless = OpenAI(base_url=cases.ENDLESS + "/v1", api_key=cases.KEY)
ASKED = {"model": cases.MODEL, "input": cases.PROMPT}


def chat():
    return client.responses.create(**ASKED).output_text


def stream():
    for event in client.responses.create(**ASKED, stream=True):
        if event.type == "response.output_text.delta":
            yield event.delta


def schema():
    return client.responses.parse(**ASKED, text_format=cases.Person).output_parsed


def tools():
    function = {"type": "function", "strict": True, **cases.FUNCTION}
    asked = client.responses.create(**ASKED, tools=[function], tool_choice="required")
    results = [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": cases.look(**json.loads(call.arguments)),
        }
        for call in asked.output
        if call.type == "function_call"
    ]
    told = client.responses.create(
        model=cases.MODEL, input=results, tools=[function], previous_response_id=asked.id
    )
    return told.output_text


def cancel():
    with endless.responses.create(**ASKED, stream=True) as events:
        next(iter(events))


def overflow():
    client.responses.create(model=cases.MODEL, input=cases.TOO_LONG)


cases.report(chat=chat, stream=stream, schema=schema, tools=tools, cancel=cancel, overflow=overflow)
