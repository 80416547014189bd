"""Chat templates: jinja2 during export, literal text around messages in the runner."""

from exporter.chat_template.blob import TemplateText
from exporter.chat_template.compile import (
    CompiledChatTemplate,
    compile_chat_template,
    first_turn,
    require_chat_template,
)
from exporter.chat_template.find import DEFAULT, TOOL_USE, find_chat_templates

__all__ = [
    "DEFAULT",
    "TOOL_USE",
    "CompiledChatTemplate",
    "TemplateText",
    "compile_chat_template",
    "find_chat_templates",
    "first_turn",
    "require_chat_template",
]
