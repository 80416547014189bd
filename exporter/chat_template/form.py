"""A chat template as literal text between places; defines the meaning of
schemas/chat_template.fbs."""

from dataclasses import dataclass, field
from enum import IntEnum

from runtime.chat_format.environment import Messages


class Place(IntEnum):
    """The place of a message in its conversation; the values are the schema's."""

    START = 0
    SYSTEM = 1
    ONLY_USER = 2
    FIRST_USER = 3
    USER = 4
    LAST_USER = 5
    ASSISTANT = 6
    END = 7
    PROMPT = 8


class Strip(IntEnum):
    """What is stripped from one side of a message's content; the values are the schema's."""

    NOTHING = 0
    WHITE_SPACE = 1
    NEWLINES = 2


_USERS = (Place.ONLY_USER, Place.FIRST_USER, Place.USER, Place.LAST_USER)
_STRIPPED = {Strip.NOTHING: "", Strip.WHITE_SPACE: None, Strip.NEWLINES: "\n"}


@dataclass(frozen=True)
class Rule:
    """What happens to the content at one place.

    If `behind` is not empty, only the text after its last occurrence is kept, without newlines at
        the start: a template drops a model's thoughts. Then the sides are stripped.
    """

    strip_left: Strip = Strip.NOTHING
    strip_right: Strip = Strip.NOTHING
    behind: str = ""

    def apply(self, content: str) -> str:
        if self.behind and self.behind in content:
            content = content.rpartition(self.behind)[2].lstrip("\n")
        content = content.lstrip(_STRIPPED[self.strip_left])
        return content.rstrip(_STRIPPED[self.strip_right])


@dataclass(frozen=True)
class PictureText:
    """What stands in front of a message that begins with pictures: `picture` for each."""

    before: str
    picture: str
    after: str

    def render(self, pictures: int) -> str:
        return self.before + pictures * self.picture + self.after


@dataclass
class Form:
    """The rendering of conversations with, or without, a system message.

    Attributes:
        picture_edges: the edges to users' messages that begin with pictures: messages tell their
            number as `pictures`. Empty: the template has no place for them.
    """

    system_before_last_user: bool = False
    edges: dict[tuple[Place, Place], str] = field(default_factory=dict)
    rules: dict[Place, Rule] = field(default_factory=dict)
    picture_edges: dict[tuple[Place, Place], PictureText] = field(default_factory=dict)

    def render(self, messages: Messages, add_generation_prompt: bool) -> str:
        """Renders a conversation that ends with a user's message, as the runner does."""
        places = place_messages(messages, add_generation_prompt, self.system_before_last_user)
        pictures = [message.get("pictures", 0) for message in messages if message["role"] == "user"]
        text = ""
        for (place, content), (following, _) in zip(places, places[1:], strict=False):
            count = pictures.pop(0) if following in _USERS else 0
            edge = (place, following)
            text += self.rules.get(place, Rule()).apply(content)
            text += self.picture_edges[edge].render(count) if count else self.edges[edge]
        return text


def place_messages(
    messages: Messages, add_generation_prompt: bool, system_before_last_user: bool
) -> list[tuple[Place, str]]:
    """Returns the places of a conversation in the order of its rendering, with their contents."""
    has_system = messages[0]["role"] == "system"
    turns = messages[1:] if has_system else messages
    places = [(Place.START, "")]
    for index, message in enumerate(turns):
        first, last = index == 0, index == len(turns) - 1
        if message["role"] == "assistant":
            place = Place.ASSISTANT
        elif first:
            place = Place.ONLY_USER if last else Place.FIRST_USER
        else:
            place = Place.LAST_USER if last else Place.USER
        places.append((place, message["content"]))
    if has_system:
        at = len(places) - 1 if system_before_last_user else 1
        places.insert(at, (Place.SYSTEM, messages[0]["content"]))
    places.append((Place.PROMPT if add_generation_prompt else Place.END, ""))
    return places
