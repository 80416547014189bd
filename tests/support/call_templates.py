"""Chat templates that write calls of functions, one in the form of each family of models."""

_TURNS = """
{{- bos_token -}}
{%- if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}CALL{% endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
_JSON_CALL = (
    '{{ \'{"name": "\' + call.function.name + \'", "KEY": \' }}'
    "{{ (call.function.arguments | tojson) + '}' }}"
)
_COMMA = "{{ ', ' if not loop.last }}"


def _turns(call: str, key: str = "arguments") -> str:
    return _TURNS.replace("CALL", call.replace("JSON", _JSON_CALL.replace("KEY", key)))


def _listed(begin: str, call: str, end: str) -> str:
    """All calls between one begin and one end."""
    first = f"{{{{ '{begin}' if loop.first }}}}"
    last = f"{{{{ '{end}' if loop.last }}}}"
    return _turns(f"{first}{call}{_COMMA}{last}")


HERMES = _turns("{{ '\\n' if not loop.first }}<tool_call>{{ '\\n' }}JSON{{ '\\n' }}</tool_call>")

TEMPLATES = {
    "hermes": HERMES,
    "qwen-xml": _turns(
        "{{ '\\n' if not loop.first }}<tool_call>{{ '\\n' }}<function={{ call.function.name }}>"
        "{{ '\\n' }}{% for name, value in call.function.arguments.items() %}"
        "<parameter={{ name }}>{{ '\\n' }}{{ value | tojson if value is mapping or (value is "
        "sequence and value is not string) else value | string }}"
        "{{ '\\n' }}</parameter>{{ '\\n' }}{% endfor %}</function>{{ '\\n' }}</tool_call>"
    ),
    "phi-4": _listed("<|tool_call|>[", "JSON", "]<|/tool_call|>") + "{# <|tool|> #}",
    "mistral-list": _listed("[TOOL_CALLS][", "JSON", "]"),
    "mistral": _turns(
        "[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}"
    ),
    "llama-3": _turns("JSON", "parameters") + "{# ipython #}",
    "lfm2": _listed(
        "<|tool_call_start|>[",
        "{{ call.function.name }}({% for name, value in call.function.arguments.items() %}"
        "{{ name + '=' + (value | string if value is boolean else value | tojson) }}"
        "{{ ', ' if not loop.last }}{% endfor %})",
        "]<|tool_call_end|>",
    ),
    "gemma-4": """
{%- macro written(value) -%}
{%- if value is string %}{{ '<|"|>' + value + '<|"|>' }}
{%- elif value is mapping %}{
{%- for key in value | sort -%}
{{ key }}:{{ written(value[key]) }}{{ ',' if not loop.last }}{% endfor %}}
{%- elif value is iterable %}[
{%- for item in value %}{{ written(item) }}{{ ',' if not loop.last }}{% endfor %}]
{%- else %}{{ value | tojson }}{% endif -%}
{%- endmacro -%}
"""
    + _turns(
        "<|tool_call>call:{{ call.function.name }}"
        "{{ written(call.function.arguments) }}<tool_call|>"
    ),
    "harmony": """
{{- tools | tojson if tools }}
{%- for message in messages %}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
{{- '<|start|>assistant<|channel|>commentary to=functions.' + call.function.name }}
{{- ' <|constrain|>json<|message|>' + (call.function.arguments | tojson) + '<|call|>' }}
{%- endfor %}
{%- else %}
{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}
""",
}

# Templates that write no calls: a message's text has them. The first takes the functions, as JSON,
# from the system message.
WITHOUT_CALLS = {
    "phi-4": """
{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content }}
{%- if message['role'] == 'system' and 'tools' in message %}
{{- '<|tool|>' + message['tools'] + '<|/tool|>' }}{% endif %}
{{- '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}
""",
    "lfm2": """
{%- if tools %}{{ 'List of tools: <|tool_list_start|>' + (tools | tojson) }}{% endif %}
{%- for message in messages %}{{ '<|im_start|>' + message.role + message.content }}{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant{% endif %}
""",
}

SPECIAL_TOKENS = (
    *("<|im_start|>", "<|im_end|>", "<|tool_call|>", "<|/tool_call|>", "[TOOL_CALLS]", "[ARGS]"),
    *("<|tool_call_start|>", "<|tool_call_end|>", "<|tool_call>", "<tool_call|>", '<|"|>'),
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>"),
)
