"""instructor: objects by calls of functions, its default."""

import cases
import instructor
from openai import OpenAI

client = instructor.from_openai(OpenAI(base_url=cases.CHAT + "/v1", api_key=cases.KEY))


def ask(output, messages=cases.MESSAGES):
    return client.chat.completions.create(
        response_model=output, model=cases.MODEL, messages=messages, max_retries=0
    )


cases.report(
    chat=lambda: ask(None).choices[0].message.content,
    schema=lambda: ask(cases.Person),
    overflow=lambda: ask(cases.Person, cases.TOO_LONG),
)
