"""magentic: functions whose bodies are the model's answers."""

import cases
from magentic import Chat, FunctionCall, OpenaiChatModel, StreamedStr, UserMessage


def chat(output, text=cases.PROMPT, functions=None):
    model = OpenaiChatModel(cases.MODEL, base_url=cases.CHAT + "/v1", api_key=cases.KEY)
    started = Chat([UserMessage(text)], output_types=[output], functions=functions, model=model)
    return started.submit()


def ask(output=str, **options):
    return chat(output, **options).last_message.content


def tools():
    asked = chat(FunctionCall, functions=[cases.look]).exec_function_call()
    return Chat(asked.messages, output_types=[str], model=asked.model).submit().last_message.content


cases.report(
    chat=ask,
    stream=lambda: list(ask(StreamedStr)),
    schema=lambda: ask(cases.Person),
    tools=tools,
    overflow=lambda: ask(text=cases.PROMPT * 3000),
)
