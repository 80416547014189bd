"""How much of the text the penalties see: all of it."""

from typing import Self

from pydantic import Field, model_validator

from runtime.server.fields import Fields

_NONE = {
    **dict.fromkeys(("repeat_penalty", "repetition_penalty"), 1),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), 0),
}


class Penalized(Fields):
    """A body with penalties of repeated tokens."""

    repeat_last_n: int | None = Field(
        None, ge=-1, description="-1; any number, and no effect, where nothing is penalized"
    )

    @model_validator(mode="after")
    def _of_the_whole_text(self) -> Self:
        given = {name: getattr(self, name, None) for name in _NONE}
        penalty = next((n for n, value in given.items() if value not in (None, _NONE[n])), None)
        if self.repeat_last_n not in (None, -1) and penalty is not None:
            raise ValueError(
                f"{penalty} is of the whole text: repeat_last_n can only be -1 beside it"
            )
        return self
