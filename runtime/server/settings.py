"""What the person who starts a server decides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerSettings:
    """Limits of a server.

    Attributes:
        api_key: what they must show; None: nothing.
        max_body: bytes of a request.
        max_tokens: of an answer; None: the context is the limit.
        timeout: seconds of a request, with its wait for a model and for its turn.
        origins: of web pages that may use the server.
        hosts: names and addresses under which clients may address it, beside those of this
            computer; None: any.
        relax: whether what is not supported of schemas is left out, and told in `schema_left_out`;
            otherwise it is an error.
        image_hosts: that pictures are read from, by https; others are data URLs.
        max_images: bytes of a request's pictures.
        version: of Thimble.
        max_sound: bytes of one to transcribe.
        max_sound_s: its seconds.
        strict_fields: whether requests with fields that the server does not know are refused.
    """

    api_key: str | None = None
    max_body: int = 1 << 20
    max_tokens: int | None = None
    timeout: float = 600.0
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = ()
    relax: bool = False
    strict_fields: bool = False
    image_hosts: tuple[str, ...] = ()
    max_images: int = 20 << 20
    version: str = "0"
    max_sound: int = 25 << 20
    max_sound_s: float = 7200.0
