"""strands-agents: an agent over chat completions."""

import cases
from strands import Agent, tool
from strands.models.openai import OpenAIModel


def agent(address=cases.CHAT, **options):
    given = {"base_url": address + "/v1", "api_key": cases.KEY}
    return Agent(
        OpenAIModel(client_args=given, model_id=cases.MODEL), callback_handler=None, **options
    )


def text_of(result):
    return "".join(block.get("text", "") for block in result.message["content"])


async def stream():
    return [event["data"] async for event in agent().stream_async(cases.PROMPT) if "data" in event]


def schema():
    return agent()(cases.PROMPT, structured_output_model=cases.Person).structured_output


def tools():
    call = {"toolUse": {"toolUseId": "call1", "name": "look", "input": cases.MADE_UP}}
    seen = {"text": cases.look(**cases.MADE_UP)}
    result = {"toolResult": {"toolUseId": "call1", "status": "success", "content": [seen]}}
    messages = [
        {"role": "user", "content": [{"text": cases.PROMPT}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    return text_of(agent(messages=messages, tools=[tool(cases.look)])("And then?"))


cases.report(
    chat=lambda: text_of(agent()(cases.PROMPT)),
    stream=stream,
    schema=schema,
    tools=tools,
    overflow=lambda: agent()(cases.PROMPT * 3000),
)
