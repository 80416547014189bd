"""aisuite: its provider of OpenAI's interface."""

import cases
from aisuite import Client

client = Client({"openai": {"base_url": cases.CHAT + "/v1", "api_key": cases.KEY}})


def ask(messages=cases.MESSAGES, **options):
    answer = client.chat.completions.create(
        model=f"openai:{cases.MODEL}", messages=messages, **options
    )
    return answer.choices[0].message.content


def schema():
    return ask(response_format=cases.RESPONSE_FORMAT)


cases.report(chat=ask, schema=schema, overflow=lambda: ask(cases.TOO_LONG))
