"""Errors as OpenAI's clients read them: a status and one sentence."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from starlette.responses import JSONResponse

_TYPES = {401: "authentication_error", 429: "rate_limit_error", 404: "not_found_error"}
_LONGEST_MESSAGE = 1000  # characters
THREAD_NOT_FOUND = "thread_not_found"  # of Anthropic: its clients then send the whole conversation
_LONGEST = 40  # characters of a value that a sentence repeats
# What a value must be, by pydantic's kinds of faults; the names in braces are of a fault's context.
_MUST_BE = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
    "union_tag_invalid": "of the type {expected_tags}, not '{tag}'",
    "union_tag_not_found": "an object with a type",
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "string_too_short": "a string of length {min_length} or more",
    "string_too_long": "a string of length {max_length} or less",
    "too_short": "a list of length {min_length} or more",
    "too_long": "a list of length {max_length} or less",
    "string_pattern_mismatch": "a string that matches {pattern}",
}


class HttpError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of HTTP.
        param: the field that is wrong, if it is one.
        code: a word for programs, if there is one.
        retry_after: seconds after which the request may be possible.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        if len(message) > _LONGEST_MESSAGE:  # it repeats what a client sent
            half = _LONGEST_MESSAGE // 2
            message = f"{message[:half]}...{message[-half:]}"
        super().__init__(message)
        self.retry_after = retry_after
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, kind),
                "param": self.param,
                "code": self.code,
            }
        }

    def response(
        self, shape: "Callable[[HttpError], dict[str, Any]] | None" = None
    ) -> JSONResponse:
        """
        Args:
            shape: how an interface's clients read errors; None: as OpenAI's do.
        """
        headers = {"Retry-After": str(self.retry_after or 1)} if self.status in (429, 503) else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        body = self.body() if shape is None else shape(self)
        return JSONResponse(body, self.status, headers)


def not_valid(error: ValidationError, body: Any) -> HttpError:
    """The first of a request's faults, as a sentence.

    Args:
        body: what was not valid.
    """
    faults = error.errors(include_url=False)
    # Of a union's members, the one that has the right type is what the client meant, then the one
    # that goes deepest.
    fault = max(faults, key=_rank)
    place = ".".join(_fields(fault, body))
    if fault["type"] == "extra_forbidden" or _takes_nothing(fault):
        return HttpError(400, f"{place} is not supported", place, "unsupported_parameter")
    members = [one for one in faults if _rank(one) == _rank(fault)]
    others = [one for one in members if ".".join(_fields(one, body)) == place]
    return HttpError(400, _sentence(place, fault, others), place or None)


def _rank(fault: Mapping[str, Any]) -> tuple[bool, int]:
    return not fault["type"].endswith("_type"), len(fault["loc"])


def _sentence(place: str, fault: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """
    Args:
        others: the faults of a union's members that fit no better, and the fault itself.
    """
    if fault["type"] == "missing":
        return f"{place} is missing"
    if fault["type"] not in _MUST_BE:
        reason = fault["msg"].removeprefix("Value error, ")
        return f"{place}: {reason}" if place else reason
    *rights, right = dict.fromkeys(_right(one) for one in others if one["type"] in _MUST_BE)
    if rights:
        right = f"{', '.join(rights)} or {right}"
    value = fault["input"]
    if isinstance(value, str | int | float | None):
        shown = json.dumps(value, ensure_ascii=False)
        if len(shown) <= _LONGEST:
            return f"{place} is {shown}, but must be {right}"
    return f"{place} must be {right}"


def _right(fault: Mapping[str, Any]) -> str:
    context = fault.get("ctx", {}).items()
    return _MUST_BE[fault["type"]].format_map({name: _plain(value) for name, value in context})


def _plain(value: Any) -> Any:
    """2 for 2.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _takes_nothing(fault: Mapping[str, Any]) -> bool:
    """Whether a field takes only the value that says nothing."""
    context = fault.get("ctx", {})
    empty = context.get("max_length") == 0 or context.get("expected") == "''"
    return empty or fault["type"] == "none_required"


def _fields(fault: Mapping[str, Any], value: Any) -> Iterator[str]:
    """The client's own part of a fault's path, which has names of types too."""
    *inner, last = fault["loc"] or ("",)
    for part in inner:
        if _has(value, part):
            value = value[part]
            yield str(part)
    if _has(value, last) or (last and fault["type"] == "missing"):
        yield str(last)


def _has(value: Any, part: int | str) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list) and isinstance(part, int)
