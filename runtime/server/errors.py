"""Errors as OpenAI's clients read them: a status and one sentence."""

from typing import Any

from pydantic import ValidationError
from starlette.responses import JSONResponse

_TYPES = {401: "authentication_error", 429: "rate_limit_error", 404: "not_found_error"}


class HttpError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of HTTP.
        param: the field that is wrong, if it is one.
        code: a word for programs, if there is one.
    """

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
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

    def response(self) -> JSONResponse:
        headers = {"Retry-After": "1"} if self.status in (429, 503) else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status, headers)


def not_valid(error: ValidationError) -> HttpError:
    """The first of a request's faults, as a sentence."""
    found = error.errors(include_url=False)
    # Of a union's members, the one that has the right type is what the client meant, then the one
    # that goes deepest.
    fault = max(found, key=lambda each: (not each["type"].endswith("_type"), len(each["loc"])))
    place = ".".join(str(part) for part in fault["loc"] if _is_field(part))
    if fault["type"] == "extra_forbidden":
        return HttpError(400, f"{place} is not supported", place, "unsupported_parameter")
    reason = fault["msg"].removeprefix("Value error, ")
    sentence = f"{place}: {reason}" if place else reason
    return HttpError(400, sentence, place or None)


def _is_field(part: int | str) -> bool:
    """Whether a part of a path is the client's own, and no name of a type in a union."""
    if isinstance(part, int):
        return True
    return (
        part not in ("str", "int", "constrained-str")
        and part.replace("_", "").islower()
        and "[" not in part
    )
