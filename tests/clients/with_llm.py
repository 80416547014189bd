"""llm: a model of its list for OpenAI's interface."""

import cases
from llm.default_plugins.openai_models import Chat


def ask(prompt=cases.PROMPT, address=cases.CHAT, **options):
    model = Chat(
        cases.MODEL,
        model_name=cases.MODEL,
        api_base=address + "/v1",
        supports_tools=True,
        supports_schema=True,
    )
    model.key = cases.KEY
    model.needs_key = None
    return model.prompt(prompt, **options)


def cancel():
    parts = iter(ask(address=cases.ENDLESS))
    next(parts)
    parts.close()


cases.report(
    chat=lambda: ask(stream=False).text(),
    stream=lambda: list(ask()),
    schema=lambda: ask(schema=cases.Person, stream=False).text(),
    cancel=cancel,
    overflow=lambda: ask(cases.PROMPT * 3000).text(),
)
