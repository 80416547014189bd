"""smolagents: its model. It keeps the connection of a stream that nobody reads."""

import cases
from smolagents import ChatMessage, MessageRole, OpenAIModel, tool


def model():
    return OpenAIModel(cases.MODEL, api_base=cases.CHAT + "/v1", api_key=cases.KEY)


def message(role, text):
    return ChatMessage(role, [{"type": "text", "text": text}])


USER = message(MessageRole.USER, cases.PROMPT)


def stream():
    for delta in model().generate_stream([USER]):
        yield delta.content


def schema():
    return model().generate([USER], response_format=cases.RESPONSE_FORMAT).content


def tools():
    asked = model().generate([USER], tools_to_call_from=[tool(cases.look)])
    call = model().parse_tool_calls(asked).tool_calls[0].function
    seen = message(MessageRole.TOOL_RESPONSE, cases.look(**call.arguments))
    called = message(MessageRole.TOOL_CALL, f"look({call.arguments})")
    return model().generate([USER, called, seen]).content


cases.report(
    chat=lambda: model().generate([USER]).content,
    stream=stream,
    schema=schema,
    tools=tools,
    overflow=lambda: model().generate([message(MessageRole.USER, cases.PROMPT * 3000)]),
)
