"""Chat templates: jinja2 during export, literal text around messages in the runner."""

from exporter.chat_template.blob import TemplateText
from exporter.chat_template.compile import (
    CompiledChatTemplate,
    compile_chat_template,
    find_chat_template,
    first_turn,
)

__all__ = [
    "CompiledChatTemplate",
    "TemplateText",
    "compile_chat_template",
    "find_chat_template",
    "first_turn",
]
