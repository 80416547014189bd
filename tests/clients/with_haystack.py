"""haystack-ai: its generator of chats, and its embedder."""

from contextlib import suppress

import cases
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

KEY = Secret.from_token(cases.KEY)
LOOK = create_tool_from_function(cases.look)


def ask(messages=None, address=cases.CHAT, text=cases.PROMPT, **options):
    generator = OpenAIChatGenerator(
        api_key=KEY, model=cases.MODEL, api_base_url=address + "/v1", **options
    )
    (reply,) = generator.run(messages or [ChatMessage.from_user(text)])["replies"][:1]
    return reply


def stream():
    parts = []
    ask(streaming_callback=lambda chunk: parts.append(chunk.content))
    return parts


def tools():
    asked = ask(tools=[LOOK], generation_kwargs={"tool_choice": "required"})
    results = [
        ChatMessage.from_tool(cases.look(**call.arguments), origin=call)
        for call in asked.tool_calls
    ]
    return ask([ChatMessage.from_user(cases.PROMPT), asked, *results], tools=[LOOK]).text


def embeddings():
    encoder = OpenAIDocumentEmbedder(
        api_key=KEY, model=cases.ENCODER, api_base_url=cases.EMBEDDINGS + "/v1", progress_bar=False
    )
    documents = [Document(content=text) for text in cases.TEXTS]
    return [one.embedding for one in encoder.run(documents)["documents"]]


def cancel():
    def stop(_chunk):
        raise InterruptedError

    with suppress(InterruptedError):
        ask(address=cases.ENDLESS, streaming_callback=stop)


cases.report(
    chat=lambda: ask().text,
    stream=stream,
    schema=lambda: ask(generation_kwargs={"response_format": cases.Person}).text,
    tools=tools,
    embeddings=embeddings,
    cancel=cancel,
    overflow=lambda: ask(text=cases.PROMPT * 3000),
)
