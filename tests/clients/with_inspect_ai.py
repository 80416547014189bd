"""inspect-ai: the model of an evaluation."""

import cases
from inspect_ai.model import (
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ResponseSchema,
    get_model,
)
from inspect_ai.tool import ToolInfo, ToolParams
from inspect_ai.util import json_schema

model = get_model(
    f"openai-api/thimble/{cases.MODEL}", base_url=cases.CHAT + "/v1", api_key=cases.KEY
)
USER = ChatMessageUser(content=cases.PROMPT)
LOOK = ToolInfo(
    name="look",
    description=cases.FUNCTION["description"],
    parameters=ToolParams.model_validate(cases.ARGUMENTS),
)


async def chat():
    return (await model.generate([USER])).completion


async def schema():
    wanted = ResponseSchema(name="person", json_schema=json_schema(cases.Person))
    answer = await model.generate([USER], config=GenerateConfig(response_schema=wanted))
    return answer.completion


async def tools():
    asked = (await model.generate([USER], tools=[LOOK], tool_choice="any")).message
    results = [
        ChatMessageTool(content=cases.look(**call.arguments), tool_call_id=call.id)
        for call in asked.tool_calls
    ]
    return (await model.generate([USER, asked, *results], tools=[LOOK])).completion


async def overflow():
    answer = await model.generate([ChatMessageUser(content=cases.PROMPT * 3000)])
    raise RuntimeError(answer.stop_reason.replace("model_length", "context"))


cases.report(chat=chat, schema=schema, tools=tools, overflow=overflow)
