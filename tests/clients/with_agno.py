"""agno: an agent over chat completions."""

import cases
from agno.agent import Agent
from agno.models.openai.like import OpenAILike


def agent(**options):
    model = OpenAILike(id=cases.MODEL, base_url=cases.CHAT + "/v1", api_key=cases.KEY)
    return Agent(model=model, telemetry=False, **options)


def stream():
    for event in agent().run(cases.PROMPT, stream=True):
        yield event.content


def overflow():
    answer = agent().run(cases.PROMPT * 3000)
    raise RuntimeError(answer.content)  # which tells the error


cases.report(
    chat=lambda: agent().run(cases.PROMPT).content,
    stream=stream,
    schema=lambda: agent(output_schema=cases.Person).run(cases.PROMPT).content,
    overflow=overflow,
)
