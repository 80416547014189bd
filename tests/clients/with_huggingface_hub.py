"""huggingface_hub: its client of inference servers."""

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
    return ask(response_format=cases.RESPONSE_FORMAT).content


def tools():
    asked = ask(tools=[cases.TOOL], tool_choice="required")
    told = [*cases.MESSAGES, asked, *cases.results_of(asked.tool_calls)]
    return ask(told, tools=[cases.TOOL]).content


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
