"""huggingface_hub: its client of inference servers."""

import json

import cases
from huggingface_hub import InferenceClient

client, endless = (
    InferenceClient(base_url=address + "/v1", api_key=cases.KEY)
    for address in (cases.CHAT, cases.ENDLESS)
)


def ask(messages=cases.MESSAGES, **options):
    answer = client.chat_completion(messages, model=cases.MODEL, **options)
    return answer.choices[0].message


def stream():
    for chunk in client.chat_completion(cases.MESSAGES, model=cases.MODEL, stream=True):
        yield chunk.choices[0].delta.content


def schema():
    named = {"name": "person", "schema": cases.Person.model_json_schema()}
    return ask(response_format={"type": "json_schema", "json_schema": named}).content


def tools():
    asked = ask(tools=[cases.TOOL], tool_choice="required")
    results = [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": cases.look(**json.loads(call.function.arguments)),
        }
        for call in asked.tool_calls
    ]
    return ask([*cases.MESSAGES, asked, *results], tools=[cases.TOOL]).content


def cancel():
    chunks = endless.chat_completion(
        cases.MESSAGES, model=cases.MODEL, stream=True, max_tokens=16000
    )
    next(iter(chunks))
    chunks.close()


cases.report(
    chat=lambda: ask().content,
    stream=stream,
    schema=schema,
    tools=tools,
    cancel=cancel,
    overflow=lambda: ask(cases.TOO_LONG),
)
