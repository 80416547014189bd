"""pydantic-ai: chat completions. Its results are calls, which the model must make."""

import cases
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def agent(address=cases.CHAT, **options):
    provider = OpenAIProvider(base_url=address + "/v1", api_key=cases.KEY)
    return Agent(OpenAIChatModel(cases.MODEL, provider=provider), **options)


async def stream():
    async with agent().run_stream(cases.PROMPT) as answer:
        return [part async for part in answer.stream_text(delta=True, debounce_by=None)]


async def cancel():
    async with agent(cases.ENDLESS).run_stream(cases.PROMPT) as answer:
        async for _ in answer.stream_text(delta=True, debounce_by=None):
            break


def tools():
    seen = agent(output_type=cases.look).run_sync(cases.PROMPT)
    return agent().run_sync("And then?", message_history=seen.all_messages()).output


cases.report(
    chat=lambda: agent().run_sync(cases.PROMPT).output,
    stream=stream,
    schema=lambda: agent(output_type=cases.Person).run_sync(cases.PROMPT).output,
    tools=tools,
    cancel=cancel,
    overflow=lambda: agent().run_sync(cases.PROMPT * 3000),
)
