"""litellm: chat completions and embeddings."""

import cases
import litellm

ASKED = {"model": f"openai/{cases.MODEL}", "api_base": cases.CHAT + "/v1", "api_key": cases.KEY}


def ask(messages=cases.MESSAGES, **options):
    return litellm.completion(**{**ASKED, "messages": messages, **options})


def chat():
    return ask().choices[0].message.content


def stream():
    for chunk in ask(stream=True):
        yield chunk.choices[0].delta.content


def schema():
    return ask(response_format=cases.Person).choices[0].message.content


def tools():
    message = ask(tools=[cases.TOOL], tool_choice="required").choices[0].message
    told = [*cases.MESSAGES, message, *cases.results_of(message.tool_calls)]
    return ask(told, tools=[cases.TOOL]).choices[0].message.content


def embeddings():
    answer = litellm.embedding(
        model=f"openai/{cases.ENCODER}",
        api_base=cases.EMBEDDINGS + "/v1",
        api_key=cases.KEY,
        input=cases.TEXTS,
    )
    return [one["embedding"] for one in answer.data]


def cancel():
    chunks = ask(stream=True, api_base=cases.ENDLESS + "/v1")
    next(iter(chunks))
    chunks.completion_stream.response.close()


def overflow():
    try:
        ask(cases.TOO_LONG)
    except litellm.ContextWindowExceededError:
        raise
    except Exception as error:
        raise AssertionError(f"not litellm's own error, but {error!r}") from None


cases.report(
    chat=chat,
    stream=stream,
    schema=schema,
    tools=tools,
    embeddings=embeddings,
    cancel=cancel,
    overflow=overflow,
)
