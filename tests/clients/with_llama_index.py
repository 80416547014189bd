"""llama-index-llms-openai-like and its embeddings."""

import cases
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

LOOK = FunctionTool.from_defaults(cases.look)


def model(address=cases.CHAT):
    return OpenAILike(
        model=cases.MODEL,
        api_base=address + "/v1",
        api_key=cases.KEY,
        is_chat_model=True,
        is_function_calling_model=True,
    )


def message(text=cases.PROMPT):
    return ChatMessage(role="user", content=text)


def stream():
    for part in model().stream_chat([message()]):
        yield part.delta


def tools():
    asked = model().chat_with_tools([LOOK], user_msg=cases.PROMPT, tool_required=True)
    results = [
        ChatMessage(
            role="tool",
            content=cases.look(**call.tool_kwargs),
            additional_kwargs={"tool_call_id": call.tool_id},
        )
        for call in model().get_tool_calls_from_response(asked)
    ]
    history = [message(), asked.message, *results]
    return model().chat_with_tools([LOOK], chat_history=history).message.content


def embeddings():
    encoder = OpenAILikeEmbedding(
        model_name=cases.ENCODER, api_base=cases.EMBEDDINGS + "/v1", api_key=cases.KEY
    )
    return encoder.get_text_embedding_batch(cases.TEXTS)


def cancel():
    parts = model(cases.ENDLESS).stream_chat([message()])
    next(parts)
    parts.close()


cases.report(
    chat=lambda: model().chat([message()]).message.content,
    stream=stream,
    schema=lambda: model().as_structured_llm(cases.Person).chat([message()]).raw,
    tools=tools,
    embeddings=embeddings,
    cancel=cancel,
    overflow=lambda: model().chat([message(cases.PROMPT * 3000)]),
)
