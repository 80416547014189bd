"""openai-agents: responses, its default."""

import os

import cases

os.environ |= {"OPENAI_API_KEY": cases.KEY, "OPENAI_AGENTS_DISABLE_TRACING": "1"}
from agents import (  # noqa: E402
    Agent,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    Runner,
    function_tool,
)


def config(address=cases.CHAT):
    return RunConfig(model_provider=OpenAIProvider(base_url=address + "/v1", api_key=cases.KEY))


async def ask(given=cases.PROMPT, **options):
    agent = Agent("teller", model=cases.MODEL, **options)
    return (await Runner.run(agent, given, run_config=config())).final_output


def streamed(address):
    agent = Agent("teller", model=cases.MODEL)
    return Runner.run_streamed(agent, cases.PROMPT, run_config=config(address))


async def stream():
    events = streamed(cases.CHAT).stream_events()
    return [event.data.delta async for event in events if _is_delta(event)]


async def cancel():
    answer = streamed(cases.ENDLESS)
    async for event in answer.stream_events():
        if _is_delta(event):
            answer.cancel()


def _is_delta(event):
    return event.type == "raw_response_event" and hasattr(event.data, "delta")


cases.report(
    chat=ask,
    stream=stream,
    schema=lambda: ask(output_type=cases.Person),
    tools=lambda: ask(
        tools=[function_tool(cases.look)], model_settings=ModelSettings(tool_choice="required")
    ),
    cancel=cancel,
    overflow=lambda: ask(cases.TOO_LONG),
)
