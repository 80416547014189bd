"""What an answer must be, by the names of OpenAI, vLLM and llama.cpp."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from runtime.errors import RunnerError
from runtime.one_constraint import one_constraint
from runtime.server.fields import Fields

_Schema = dict[str, Any] | bool
_Choice = Annotated[list[str], Field(min_length=1, max_length=1000)]


class JsonSchema(Fields):
    name: str
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class TextFormat(Fields):
    type: Literal["text"]


class JsonObjectFormat(Fields):
    type: Literal["json_object", "json"]
    schema_: dict[str, Any] | None = Field(
        None, alias="schema", description="of the object; not OpenAI's"
    )
    value: dict[str, Any] | None = Field(None, description="the same, by Hugging Face's name")


class JsonSchemaFormat(Fields):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]


class StructuredOutputs(Fields):
    """vLLM's: one of these."""

    json_: _Schema | str | None = Field(None, alias="json", description="a schema")
    json_object: bool | None = None
    regex: str | None = None
    choice: _Choice | None = None
    grammar: str | None = None
    disable_any_whitespace: bool | None = Field(None, description="no effect: there is little")


@dataclass(frozen=True)
class AnswerConstraint:
    """
    Attributes:
        field: of the request; None: its response_format, which each interface has in its own place.
        kind: the option of an answer.
        value: of this option.
    """

    field: str | None
    kind: str
    value: Any


class Constrained(Fields):
    """The constraint of an answer: at most one field may be given."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = Field(None, description="vLLM's")
    json_schema: _Schema | None = Field(None, description="llama.cpp's: the schema itself")
    regex: str | None = Field(None, description="as in structured_outputs")
    choice: _Choice | None = Field(None, description="as in structured_outputs")
    grammar: str | None = Field(None, description="llama.cpp's: in GBNF")
    guided_json: _Schema | str | None = Field(None, description="vLLM's, before")
    guided_regex: str | None = Field(None, description="vLLM's, before")
    guided_choice: _Choice | None = Field(None, description="vLLM's, before")
    guided_grammar: str | None = Field(None, description="vLLM's, before")

    @model_validator(mode="after")
    def _one_constraint(self) -> "Constrained":
        try:
            one_constraint((one.field or "response_format", one) for one in self._constraints())
        except RunnerError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def constraint(self) -> AnswerConstraint | None:
        return next(iter(self._constraints()), None)

    def _constraints(self) -> list[AnswerConstraint]:
        structured = self.structured_outputs or StructuredOutputs.model_validate({})
        inside = "structured_outputs."
        given = [
            (None, "json_schema", self._schema_of_format()),
            (f"{inside}json", "json_schema", _read("structured_outputs.json", structured.json_)),
            (
                f"{inside}json_object",
                "json_schema",
                {"type": "object"} if structured.json_object else None,
            ),
            (f"{inside}regex", "regex", structured.regex),
            (f"{inside}choice", "choice", structured.choice),
            (f"{inside}grammar", "grammar", structured.grammar),
            ("json_schema", "json_schema", self.json_schema),
            ("regex", "regex", self.regex),
            ("choice", "choice", self.choice),
            # Clients of llama.cpp send an empty text for no grammar.
            ("grammar", "grammar", self.grammar or None),
            ("guided_json", "json_schema", _read("guided_json", self.guided_json)),
            ("guided_regex", "regex", self.guided_regex),
            ("guided_choice", "choice", self.guided_choice),
            ("guided_grammar", "grammar", self.guided_grammar),
        ]
        return [AnswerConstraint(*one) for one in given if one[2] is not None]

    def _schema_of_format(self) -> dict[str, Any] | None:
        match self.response_format:
            case JsonObjectFormat(schema_=schema, value=value):
                given = value if schema is None else schema
                return {"type": "object"} if given is None else given
            case JsonSchemaFormat(json_schema=named):
                return {} if named.schema_ is None else named.schema_
        return None


def _read(field: str, schema: _Schema | str | None) -> _Schema | None:
    """A schema, which vLLM's clients may write as JSON."""
    if not isinstance(schema, str):
        return schema
    try:
        read = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field} is a text, but not a schema in JSON: {error}") from None
    if not isinstance(read, dict | bool):
        raise ValueError(f"{field} is JSON, but not a schema: it must be an object")
    return read
