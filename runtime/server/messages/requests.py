"""The bodies of POST /v1/messages and /v1/messages/count_tokens."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from runtime.server.fields import UNSUPPORTED_BESIDE_CHATS, Fields
from runtime.server.requests import MAX_TOKENS, Name, NamesModel, TopK


class _Block(Fields):
    cache_control: dict[str, Any] | None = Field(
        None, description="no effect: common beginnings of prompts are computed once anyway"
    )


class TextBlock(_Block):
    type: Literal["text"]
    text: str
    citations: list[Any] | None = Field(None, description="no effect")


class ImageSource(Fields):
    type: Literal["base64", "url"]
    media_type: str | None = Field(None, description="no effect: the bytes tell")
    data: str | None = None
    url: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> "ImageSource":
        if (self.data if self.type == "base64" else self.url) is None:
            needed = "data" if self.type == "base64" else "url"
            raise ValueError(f"a source of the type {self.type} needs {needed}")
        return self


class ImageBlock(_Block):
    type: Literal["image"]
    source: ImageSource


Shown = Annotated[TextBlock | ImageBlock, Field(discriminator="type")]


class ThinkingBlock(_Block):
    type: Literal["thinking"]
    thinking: str
    signature: str | None = Field(None, description="no effect")


class RedactedBlock(_Block):
    type: Literal["redacted_thinking"]
    data: str | None = Field(None, description="no effect")


class ToolUseBlock(_Block):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    caller: dict[str, Any] | None = Field(None, description="no effect")


class ToolResultBlock(_Block):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Shown] | None = None
    is_error: bool | None = Field(None, description="no effect: the content says so")


Block = Annotated[
    TextBlock | ImageBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class Message(Fields):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(_Block):
    type: Literal["custom"] | None = None
    name: Name
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None


class ToolChoice(Fields):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Fields):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(None, description="no effect: max_tokens is the limit")
    display: str | None = Field(None, description="no effect")


class SchemaFormat(Fields):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(Fields):
    format: SchemaFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Thread(Fields):
    type: Literal["create", "continue"]
    previous_message_id: str | None = None


class CountRequest(NamesModel):
    """The body of POST /v1/messages/count_tokens."""

    UNSUPPORTED = UNSUPPORTED_BESIDE_CHATS

    messages: list[Message] = Field(min_length=1)
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: SchemaFormat | None = Field(None, description="output_config.format before")
    thread: Thread | None = Field(None, description="create alone, with no effect: none is kept")


class MessageRequest(CountRequest):
    """The body of POST /v1/messages."""

    max_tokens: int = Field(ge=1, le=MAX_TOKENS)
    stop_sequences: list[Annotated[str, Field(min_length=1, max_length=1000)]] | None = None
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: TopK | None = None
