"""The body of POST /v1/responses."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator

from runtime.server.constraints import TextFormat
from runtime.server.fields import UNSUPPORTED_BESIDE_CHATS, Fields
from runtime.server.requests import (
    Limit,
    Name,
    NamesModel,
    No,
    Zero,
    refuse_others,
)


class Part(Fields):
    """A part of a message, of a function's result or of reasoning."""

    type: Literal[
        "input_text",
        "input_image",
        "output_text",
        "text",
        "refusal",
        "reasoning_text",
        "summary_text",
    ]
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = Field(None, description="no effect")
    file_id: None = Field(None, description="not supported: no files are kept")
    annotations: list[Any] | None = Field(None, description="no effect")
    logprobs: list[Any] | None = Field(None, description="no effect")

    @model_validator(mode="after")
    def _complete(self) -> "Part":
        if self.type == "input_image" and self.image_url is None:
            raise ValueError("a part of the type input_image needs image_url")
        own = {"input_image": "image_url", "refusal": "refusal"}.get(self.type, "text")
        refuse_others(self, own)
        return self

    @property
    def words(self) -> str:
        return self.text or self.refusal or ""


class _Item(Fields):
    """What an answer's items have, and clients hand back with them."""

    id: str | None = Field(None, description="no effect")
    status: str | None = Field(None, description="no effect")


class InputMessage(_Item):
    type: Literal["message"] | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]
    phase: str | None = Field(None, description="no effect")


class FunctionCall(_Item):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionOutput(_Item):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[Part]


class ReasoningItem(_Item):
    type: Literal["reasoning"]
    summary: list[Part] | None = None
    content: list[Part] | None = None
    encrypted_content: str | None = Field(None, description="no effect")

    @model_validator(mode="after")
    def _is_text(self) -> "ReasoningItem":
        if any(
            part.type == "input_image" for part in [*(self.summary or []), *(self.content or [])]
        ):
            raise ValueError("reasoning has no pictures: they are the user's alone")
        return self


def _type_of(item: Any) -> str:
    return item.get("type") or "message" if isinstance(item, dict) else "message"


Item = Annotated[
    Annotated[InputMessage, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionOutput, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_type_of),
]


ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])


class FunctionTool(Fields):
    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ObjectFormat(Fields):
    type: Literal["json_object"]


class SchemaFormat(Fields):
    type: Literal["json_schema"]
    name: str
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextConfig(Fields):
    format: (
        Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")] | None
    ) = None
    verbosity: str | None = Field(None, description="no effect")


class ReasoningConfig(Fields):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: str | None = Field(None, description="no effect: the reasoning itself is there")
    generate_summary: str | None = Field(None, description="no effect")


class NamedFunction(Fields):
    type: Literal["function"]
    name: str


class AllowedTools(Fields):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[NamedFunction] = Field(min_length=1)


class ResponseRequest(NamesModel):
    """The body of POST /v1/responses."""

    UNSUPPORTED = UNSUPPORTED_BESIDE_CHATS

    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: Limit | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    tools: list[FunctionTool] | None = None
    tool_choice: (
        Literal["none", "auto", "required", "any"]
        | Annotated[NamedFunction | AllowedTools, Field(discriminator="type")]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    store: bool | None = Field(None, description="false: the response is not kept")
    stream: bool | None = None
    background: No | None = None
    conversation: None = None
    prompt: None = None
    truncation: Literal["disabled"] | None = None
    top_logprobs: Zero | None = None
    include: list[Literal["reasoning.encrypted_content"]] | None = Field(
        None, description="no effect"
    )
    max_tool_calls: int | None = Field(None, description="no effect: of tools that run here")
    stream_options: dict[str, Any] | None = Field(None, description="no effect")
