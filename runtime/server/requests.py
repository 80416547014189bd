"""What clients may ask for: OpenAI's requests, each field checked.

Fields of `Ignored` are accepted and have no effect; what becomes of fields that are not listed is
decided in `fields`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from runtime.answer_options import NUMBERS, AnswerNumber
from runtime.server.constraints import Constrained
from runtime.server.errors import not_valid
from runtime.server.fields import UNSUPPORTED_BESIDE_CHATS, Fields
from runtime.server.penalties import Penalized

MAX_TOKENS = 2**31 - 1
_MOST_STOPS = 64
_Text = Annotated[str, Field(min_length=1, max_length=1000)]
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")]
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


def _refuse(value: bool) -> bool:
    if value:
        raise ValueError("true is not supported")
    return value


def _need(value: bool) -> bool:
    if not value:
        raise ValueError("false is not supported")
    return value


# Pydantic takes 0 for Literal[False], and false for Literal[0].
No = Annotated[bool, Field(json_schema_extra={"const": False}), AfterValidator(_refuse)]
Yes = Annotated[bool, Field(json_schema_extra={"const": True}), AfterValidator(_need)]
Zero = Annotated[int, Field(ge=0, le=0)]


class Ignored(Fields):
    """Fields without effect: they say who asks, or how the work is stored and billed."""

    user: str | None = Field(None, description="no effect")
    metadata: dict[str, Any] | None = Field(None, description="no effect")
    store: bool | None = Field(None, description="no effect: nothing is stored")
    service_tier: str | None = Field(None, description="no effect")
    safety_identifier: str | None = Field(None, description="no effect")
    prompt_cache_key: str | None = Field(
        None, description="no effect: common beginnings of prompts are computed once anyway"
    )


class NamesModel(Ignored):
    """The body of a request to a model."""

    model: str = Field(
        description="as GET /v1/models lists it; may be left out if there is one alone"
    )


def _some_or_no_limit(limit: int) -> int:
    if limit == 0:
        raise ValueError("0 is not supported: at least 1 token, or -1 for no limit")
    return limit


NO_LIMIT = -1
Limit = Annotated[
    int,
    Field(ge=NO_LIMIT, le=MAX_TOKENS, description="-1: no limit"),
    AfterValidator(_some_or_no_limit),
]


class StreamOptions(Fields):
    include_usage: bool | None = None
    include_obfuscation: bool | None = Field(None, description="no effect")


# What OpenAI has other fields for, or the server chooses.
_NO_FIELDS = {"max_new_tokens", "special_text", "logprobs"}
FIELD_NUMBERS = tuple(number for number in NUMBERS if number.name not in _NO_FIELDS)
_OPENAI = {"temperature", "top_p", "presence_penalty", "frequency_penalty"}
_MOST = {"temperature": 2}  # OpenAI's bound
TopK = Annotated[int, Field(ge=-1, le=MAX_TOKENS), AfterValidator(lambda k: max(k, 0))]


def _field(number: AnswerNumber) -> Any:
    if number.name == "top_k":
        return TopK | None, Field(None, description="not OpenAI's; -1 and 0: from all tokens")
    high = _MOST.get(number.name, number.high)
    about = None if number.name in _OPENAI else "not OpenAI's"
    return number.type | None, Field(None, ge=number.low, le=high, description=about)


if TYPE_CHECKING:
    _Numbers = NamesModel
else:  # a field for each number
    _Numbers = create_model(
        "_Numbers", __base__=NamesModel, **{n.name: _field(n) for n in FIELD_NUMBERS}
    )


class Sampling(_Numbers, Constrained, Penalized):
    """What an answer must be, how it is chosen, and where it ends."""

    seed: _Seed | None = None
    n: int | None = Field(None, ge=1, le=16)
    stop: _Text | Annotated[list[_Text], Field(max_length=_MOST_STOPS)] | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        None, description="by token, in decimal"
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @field_validator("logit_bias")
    @classmethod
    def _tokens(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        for token in value or {}:
            digits = token.isascii() and token.isdigit() and len(token) <= 10
            if not digits or int(token) > MAX_TOKENS:
                raise ValueError(f"{token!r} is not the number of a token")
        return value

    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def options(self) -> dict[str, Any]:
        """The options of an answer, as runtime.answer_options names them."""
        seed = None if self.seed is None else self.seed % 2**64
        options = {number.name: getattr(self, number.name) for number in FIELD_NUMBERS}
        options |= {
            "seed": seed,
            "stop": self.stops() or None,
            "logit_bias": {int(token): bias for token, bias in (self.logit_bias or {}).items()},
        }
        return {name: value for name, value in options.items() if value not in (None, {})}


def refuse_others(part: Fields, own: str) -> None:
    """Refuses a part that has what belongs to another type: it would be lost.

    Raises:
        ValueError: it has.
    """
    for other in ("text", "refusal", "image_url"):
        if other != own and getattr(part, other):
            raise ValueError(f"a part with {own} has {other} too: make two parts of it")


class ImageUrl(Fields):
    url: str = Field(description="a data URL; https of a host that the server is allowed to ask")
    detail: Literal["auto", "low", "high", "original"] | None = Field(None, description="no effect")


class Part(Fields):
    type: Literal["text", "refusal", "image_url"]
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Part":
        if self.type == "image_url" and self.image_url is None:
            raise ValueError("a part of the type image_url needs image_url")
        refuse_others(self, self.type)
        return self


class CalledFunction(Fields):
    name: str
    arguments: str | dict[str, Any] | None = Field(description="JSON")
    parsed_arguments: Any = Field(None, description="no effect: openai's client adds it")


class Call(Fields):
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


class Message(Fields):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = Field(None, description="not OpenAI's")
    reasoning: str | None = Field(None, description="the same; not OpenAI's")
    refusal: str | None = None
    annotations: list[Any] | None = Field(None, description="no effect")
    parsed: Any = Field(None, description="no effect: openai's client adds it")
    audio: None = None
    function_call: CalledFunction | None = Field(None, description="tool_calls' older form")

    @model_validator(mode="after")
    def _complete(self) -> "Message":
        if self.role == "tool" and self.tool_call_id is None:
            raise ValueError("a message of a tool needs tool_call_id")
        if self.role == "function" and not self.name:
            raise ValueError("a message of the role function needs the function's name")
        if self.content is None and self.role not in ("assistant", "function"):
            raise ValueError(f"a message of the role {self.role} needs content")
        return self


class Function(Fields):
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Fields):
    type: Literal["function"]
    function: Function


class NamedFunction(Fields):
    name: str


class NamedTool(Fields):
    type: Literal["function"]
    function: NamedFunction


class AllowedTools(Fields):
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class AllowedChoice(Fields):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools

    @property
    def names(self) -> list[str]:
        return [tool.function.name for tool in self.allowed_tools.tools]


class Prediction(Fields):
    """What the answer may repeat, such as a file that it changes."""

    type: Literal["content"]
    content: str | list[Part]

    @field_validator("content")
    @classmethod
    def _text_alone(cls, content: str | list[Part]) -> str | list[Part]:
        if isinstance(content, list) and any(part.image_url is not None for part in content):
            raise ValueError("a prediction has parts of text alone")
        return content

    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content)


class ChatRequest(Sampling):
    """The body of POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: list[FunctionTool] | None = Field(None, max_length=128)
    functions: list[Function] | None = Field(None, max_length=128, description="tools' older form")
    function_call: Literal["none", "auto"] | NamedFunction | None = Field(
        None, description="tool_choice's older form"
    )
    tool_choice: (
        Literal["none", "auto", "required", "any"]
        | Annotated[NamedTool | AllowedChoice, Field(discriminator="type")]
        | None
    ) = Field(None, description="any, which is not OpenAI's: required")
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="what the template knows, such as enable_thinking; not OpenAI's"
    )
    add_special_tokens: No | None = Field(None, description="vLLM's: the template has them")
    modalities: list[Literal["text"]] | None = Field(None, description="no effect: text alone")
    verbosity: str | None = Field(None, description="no effect")
    prediction: Prediction | None = None

    @model_validator(mode="after")
    def _fits(self) -> "ChatRequest":
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        if self.tool_choice not in (None, "none") and not self.tools:
            raise ValueError("tool_choice needs tools")
        if self.functions and self.tools:
            raise ValueError("functions are tools' older form: give one of both")
        if self.function_call not in (None, "none") and not self.functions:
            raise ValueError("function_call needs functions")
        names = [tool.function.name for tool in self.tools or []]
        names += [function.name for function in self.functions or []]
        allowed = self.tool_choice.names if isinstance(self.tool_choice, AllowedChoice) else []
        for name in set(allowed).difference(names):
            raise ValueError(f"tool_choice allows {name!r}, which is not in tools")
        if len(set(names)) < len(names):
            raise ValueError("two of the functions have the same name")
        return self

    @property
    def offered(self) -> tuple[list[FunctionTool], Literal["none", "auto", "required"] | NamedTool]:
        """The functions that the model is told of, and how it may call them."""
        if self.functions:
            named = self.function_call
            of_older = [FunctionTool(type="function", function=f) for f in self.functions]
            if isinstance(named, NamedFunction):
                return of_older, NamedTool(type="function", function=named)
            return of_older, named or "auto"
        tools, choice = self.tools or [], self.tool_choice
        if isinstance(choice, AllowedChoice):
            names = choice.names
            return [t for t in tools if t.function.name in names], choice.allowed_tools.mode
        return tools, "required" if choice == "any" else choice or "auto"

    def max_new_tokens(self) -> int | None:
        limit = self.max_completion_tokens or self.max_tokens
        return None if limit == NO_LIMIT else limit


def chat_request(fields: dict[str, Any]) -> ChatRequest:
    """Returns what another interface asks for, in OpenAI's form; None: a field is not given.

    Raises:
        HttpError: the fields are not valid.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return ChatRequest.model_validate(given)
    except ValidationError as error:
        raise not_valid(error, given) from None


_Prompt = (
    str
    | Annotated[list[str], Field(min_length=1, max_length=64)]
    | Annotated[list[int], Field(min_length=1)]
    | Annotated[list[list[int]], Field(min_length=1, max_length=64)]
)


class CompletionRequest(Sampling):
    """The body of POST /v1/completions."""

    UNSUPPORTED = UNSUPPORTED_BESIDE_CHATS

    prompt: _Prompt
    max_tokens: int | None = Field(
        None, ge=NO_LIMIT, le=MAX_TOKENS, description="16 unless given; -1: no limit"
    )
    logprobs: int | None = Field(None, ge=0, le=20)
    echo: bool | None = None
    add_special_tokens: Yes | None = Field(None, description="vLLM's: the prompt gets them")
    best_of: Literal[1] | None = Field(None, description="1 alone")

    def prompts(self) -> list[str] | list[list[int]]:
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if isinstance(prompt[0], int):
            return [prompt]  # type: ignore[list-item]
        return prompt  # type: ignore[return-value]
