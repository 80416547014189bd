"""A model that a server was started with, as it is known before it is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.chat_format.template import takes_tools
from runtime.server.model_process import ModelOptions


@dataclass(frozen=True)
class ServedModel:
    """
    Attributes:
        name: what clients call it.
        report: what the file's report says of the model, its quantization and its context.
        template: the source of its chat template; None: it has none.
        file_size: bytes.
        file_time: seconds since 1970, when the file was changed last.
        memory: bytes that it needs once it is loaded, estimated.
        tool_template: the chat template where functions are given; None: `template`.
    """

    name: str
    options: ModelOptions
    report: Mapping[str, Any]
    template: str | None
    file_size: int
    file_time: float
    memory: int
    tool_template: str | None = None

    @property
    def context(self) -> int | None:
        """The most tokens of a text; None: the report does not say."""
        model = self.report.get("model", {})
        context: int | None = model.get("max_context_len", model.get("max_seq_len"))
        return context

    @property
    def sees(self) -> bool:
        """Whether it takes pictures."""
        return self.options.task == "text" and "vision" in self.report

    @property
    def hearing(self) -> Mapping[str, Any] | None:
        """What a model that hears can tell: of which parts times, in which languages, and whether
        while the sound arrives; files of before say nothing. None: it does not hear."""
        if self.options.task != "transcription":
            return None
        known: dict[str, Any] = {"timestamps": [], "languages": [], "streams": False}
        facts = self.report.get("model", {})
        return {name: facts.get(name, other) for name, other in known.items()}

    @property
    def capabilities(self) -> list[str]:
        """What it can do, in Ollama's and llama.cpp's words."""
        if self.options.task != "text":
            return [self.options.task]
        template = self.tool_template or self.template
        has_tools = template is not None and takes_tools(template)
        known = {"completion": True, "tools": has_tools, "vision": self.sees}
        return [name for name, has in known.items() if has]
