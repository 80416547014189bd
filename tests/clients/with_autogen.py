"""autogen-ext: its client of OpenAI's interface."""

import asyncio
import json
from contextlib import suppress

import cases
from autogen_core import CancellationToken
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

LOOK = FunctionTool(cases.look, description=cases.FUNCTION["description"], strict=True)
USER = UserMessage(content=cases.PROMPT, source="user")
CAN = {
    "vision": False,
    "function_calling": True,
    "json_output": True,
    "structured_output": True,
    "family": "unknown",
}


def client(address=cases.CHAT):
    return OpenAIChatCompletionClient(
        model=cases.MODEL, base_url=address + "/v1", api_key=cases.KEY, model_info=CAN
    )


async def ask(messages=(USER,), **options):
    return (await client().create(list(messages), **options)).content


async def stream():
    return [part async for part in client().create_stream([USER]) if isinstance(part, str)]


async def tools():
    calls = await ask(tools=[LOOK], tool_choice="required")
    results = []
    for call in calls:
        seen = await LOOK.run_json(json.loads(call.arguments), CancellationToken())
        results.append(
            FunctionExecutionResult(content=seen, name=call.name, call_id=call.id, is_error=False)
        )
    asked = AssistantMessage(content=calls, source="teller")
    return await ask([USER, asked, FunctionExecutionResultMessage(content=results)], tools=[LOOK])


async def cancel():
    token = CancellationToken()
    parts = client(cases.ENDLESS).create_stream([USER], cancellation_token=token)
    await anext(parts)
    token.cancel()
    with suppress(asyncio.CancelledError):
        await anext(parts)


cases.report(
    chat=ask,
    stream=stream,
    schema=lambda: ask(json_output=cases.Person),
    tools=tools,
    cancel=cancel,
    overflow=lambda: ask([UserMessage(content=cases.PROMPT * 3000, source="user")]),
)
