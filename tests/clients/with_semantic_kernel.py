"""semantic-kernel: chat completions, with functions that it calls itself."""

import cases
from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
    OpenAITextEmbedding,
)
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


def service(address=cases.CHAT):
    client = AsyncOpenAI(base_url=address + "/v1", api_key=cases.KEY)
    return OpenAIChatCompletion(cases.MODEL, async_client=client)


def history(text=cases.PROMPT):
    found = ChatHistory()
    found.add_user_message(text)
    return found


async def ask(text=cases.PROMPT, kernel=None, **options):
    settings = OpenAIChatPromptExecutionSettings(**options)
    answer = await service().get_chat_message_content(history(text), settings, kernel=kernel)
    return answer.content


async def stream():
    settings = OpenAIChatPromptExecutionSettings()
    parts = service().get_streaming_chat_message_content(history(), settings)
    return [str(part) async for part in parts]


@kernel_function(description=cases.FUNCTION["description"])
def look(close: bool) -> str:
    return cases.look("dog", close)  # it has no schema for a Literal


async def tools():
    kernel = Kernel()
    kernel.add_function("eyes", look)
    must = FunctionChoiceBehavior.Required(auto_invoke=True)
    return await ask(kernel=kernel, function_choice_behavior=must)


async def embeddings():
    client = AsyncOpenAI(base_url=cases.EMBEDDINGS + "/v1", api_key=cases.KEY)
    encoder = OpenAITextEmbedding(cases.ENCODER, async_client=client)
    return await encoder.generate_embeddings(cases.TEXTS)


cases.report(
    chat=ask,
    stream=stream,
    schema=lambda: ask(response_format=cases.Person),
    tools=tools,
    embeddings=embeddings,
    overflow=lambda: ask(cases.PROMPT * 3000),
)
