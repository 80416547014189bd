"""A request to /v1/responses as a conversation of chat completions."""

from collections.abc import Sequence
from typing import Any

from runtime.server.chat import check_results
from runtime.server.requests import ChatRequest, chat_request
from runtime.server.responses.requests import (
    AllowedTools,
    FunctionCall,
    FunctionOutput,
    InputMessage,
    Item,
    NamedFunction,
    ObjectFormat,
    Part,
    ReasoningItem,
    ResponseRequest,
    SchemaFormat,
)

Message = dict[str, Any]


def messages_of(given: str | Sequence[Item]) -> list[Message]:
    """Returns items as messages: reasoning, text and calls of one turn are one message."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[Message] = []
    for item in given:
        match item:
            case InputMessage(role="assistant"):
                _assistant(messages, "content").update(content=_content(item.content))
            case InputMessage():
                messages.append({"role": item.role, "content": _content(item.content)})
            case ReasoningItem():
                text = _text(item.content or item.summary or [])
                _assistant(messages, "reasoning_content").update(reasoning_content=text)
            case FunctionCall():
                function = {"name": item.name, "arguments": item.arguments}
                call = {"id": item.call_id, "type": "function", "function": function}
                _assistant(messages).setdefault("tool_calls", []).append(call)
            case FunctionOutput():
                answered = {"tool_call_id": item.call_id, "content": _content(item.output)}
                messages.append({"role": "tool", **answered})
    return messages


def _assistant(messages: list[Message], field: str | None = None) -> Message:
    """The model's turn that the last message belongs to; a new one, if a field of it is taken or
    comes too late."""
    last = messages[-1] if messages else {}
    taken = field is not None and (field in last or "tool_calls" in last)
    late = field == "reasoning_content" and "content" in last
    if last.get("role") != "assistant" or taken or late:
        messages.append({"role": "assistant"})
    return messages[-1]


def _content(content: str | Sequence[Part]) -> str | list[dict[str, Any]]:
    """A text; with pictures, chat completions' parts."""
    if isinstance(content, str) or all(part.type != "input_image" for part in content):
        return _text(content)
    return [
        {"type": "image_url", "image_url": {"url": part.image_url}}
        if part.type == "input_image"
        else {"type": "text", "text": part.words}
        for part in content
    ]


def _text(content: str | Sequence[Part]) -> str:
    return content if isinstance(content, str) else "".join(part.words for part in content)


def chat_of(request: ResponseRequest, before: Sequence[Message]) -> ChatRequest:
    """Returns the conversation.

    Args:
        before: the messages of the response that the request continues, and of those before it.

    Raises:
        HttpError: the request is not valid.
    """
    instructions = request.instructions
    system = [{"role": "system", "content": instructions}] if instructions else []
    messages = [*system, *before, *messages_of(request.input)]
    check_results(messages, "input")
    fields: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        "max_completion_tokens": request.max_output_tokens,
        "parallel_tool_calls": request.parallel_tool_calls,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stream": request.stream,
        "response_format": _format(request),
        "reasoning_effort": request.reasoning.effort if request.reasoning else None,
    }
    tools, choice = request.tools or [], request.tool_choice
    if tools or choice not in (None, "auto", "none"):
        functions = [tool.model_dump(exclude={"type"}, exclude_none=True) for tool in tools]
        fields["tools"] = [{"type": "function", "function": f} for f in functions]
        fields["tool_choice"] = choice
        if isinstance(choice, NamedFunction):
            fields["tool_choice"] = _named(choice)
        elif isinstance(choice, AllowedTools):
            allowed = {"mode": choice.mode, "tools": [_named(tool) for tool in choice.tools]}
            fields["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    return chat_request(fields)


def _named(function: NamedFunction) -> dict[str, Any]:
    return {"type": "function", "function": {"name": function.name}}


def _format(request: ResponseRequest) -> dict[str, Any] | None:
    match request.text.format if request.text else None:
        case ObjectFormat():
            return {"type": "json_object"}
        case SchemaFormat(name=name, schema_=schema):
            return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
    return None
