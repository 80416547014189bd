"""A request to /v1/messages as a conversation of chat completions."""

import json
from collections.abc import Sequence
from typing import Any

from runtime.server.chat import check_results
from runtime.server.errors import THREAD_NOT_FOUND, HttpError
from runtime.server.images import data_url
from runtime.server.messages.requests import (
    CountRequest,
    ImageBlock,
    Message,
    MessageRequest,
    RedactedBlock,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
)
from runtime.server.requests import ChatRequest, chat_request

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_of(request: CountRequest) -> ChatRequest:
    """Returns the conversation.

    Raises:
        HttpError: the request is not valid.
    """
    if request.thread is not None and request.thread.type == "continue":
        raise HttpError(
            404,
            "no thread is kept: send the whole conversation, with a thread of the type create or "
            "without one",
            "thread.previous_message_id",
            THREAD_NOT_FOUND,
        )
    if request.messages[-1].role == "assistant":
        raise HttpError(
            400,
            "the last message is the assistant's, but an answer that has begun is not continued: "
            "end with a message of the user",
            "messages",
        )
    config = request.output_config
    schema = (config.format if config else None) or request.output_format
    messages = _messages(request)
    check_results(messages, "messages")
    fields: dict[str, Any] = {
        "model": request.model,
        "messages": messages,
        "tools": [_tool(tool) for tool in request.tools or []] or None,
        "reasoning_effort": config.effort if config else None,
    }
    if schema is not None:
        named = {"name": "answer", "schema": schema.schema_}
        fields["response_format"] = {"type": "json_schema", "json_schema": named}
    if request.thinking is not None:
        thinks = request.thinking.type != "disabled"
        fields["chat_template_kwargs"] = {"enable_thinking": thinks}
    choice = request.tool_choice
    if choice is not None:
        fields["parallel_tool_calls"] = not choice.disable_parallel_tool_use
        fields["tool_choice"] = _CHOICES.get(choice.type)
        if choice.type == "tool":
            if choice.name is None:
                raise HttpError(400, "tool_choice.name is missing", "tool_choice.name")
            fields["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    if isinstance(request, MessageRequest):
        fields |= {
            "max_completion_tokens": request.max_tokens,
            "stop": request.stop_sequences or None,
            "stream": request.stream,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
        }
    return chat_request(fields)


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "parameters": tool.input_schema, "strict": tool.strict}
    if tool.description is not None:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _messages(request: CountRequest) -> list[dict[str, Any]]:
    system = [] if request.system is None else [_system(request.system)]
    turns = [turn for message in request.messages for turn in _turns(message)]
    return [*system, *turns]


def _system(content: str | Sequence[TextBlock]) -> dict[str, Any]:
    return {"role": "system", "content": _content(content)}


def _content(
    content: str | Sequence[TextBlock | ImageBlock] | None,
) -> str | list[dict[str, Any]]:
    """A text; with pictures, chat completions' parts."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [block.text for block in content if isinstance(block, TextBlock)]
    return "".join(texts) if len(texts) == len(content) else [_part(block) for block in content]


def _part(block: TextBlock | ImageBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    source = block.source
    url = data_url(source.data) if source.type == "base64" else source.url
    return {"type": "image_url", "image_url": {"url": url}}


def _turns(message: Message) -> list[dict[str, Any]]:
    """A message, in front of it the results of functions that it tells."""
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    results: list[dict[str, Any]] = []
    shown: list[TextBlock | ImageBlock] = []
    thoughts, calls = "", []
    for block in message.content:
        match block:
            case TextBlock() | ImageBlock():
                shown.append(block)
            case ThinkingBlock():
                thoughts += block.thinking
            case ToolUseBlock():
                arguments = json.dumps(block.input, ensure_ascii=False)
                function = {"name": block.name, "arguments": arguments}
                calls.append({"id": block.id, "type": "function", "function": function})
            case ToolResultBlock():
                answered = {"tool_call_id": block.tool_use_id, "content": _content(block.content)}
                results.append({"role": "tool", **answered})
            case RedactedBlock():
                pass  # nobody but its author can read it
    more: dict[str, Any] = {}
    if calls:
        more["tool_calls"] = calls
    if thoughts:
        more["reasoning_content"] = thoughts
    content = _content(shown)
    turn = {"role": message.role, "content": content, **more}
    return [*results, *([turn] if content or more or not results else [])]
