"""langchain-openai, langchain-anthropic, langchain-ollama, and langgraph over the first of them."""

import sys

import cases
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.prebuilt import create_react_agent

WHICH = sys.argv[4]
LOOK = tool(cases.look)


def model(address=cases.CHAT):
    match WHICH:
        case "anthropic":
            return ChatAnthropic(model=cases.MODEL, base_url=address, api_key=cases.KEY)
        case "ollama":
            return ChatOllama(model=cases.MODEL, base_url=address)
    return ChatOpenAI(model=cases.MODEL, base_url=address + "/v1", api_key=cases.KEY)


def stream():
    for chunk in model().stream(cases.PROMPT):
        yield chunk.text if isinstance(chunk.text, str) else chunk.text()


def tools():
    if WHICH == "ollama":  # it has no word for a call that there must be
        call = {"name": "look", "args": cases.MADE_UP, "id": "call1"}
        asked = AIMessage("", tool_calls=[call])
    else:
        asked = model().bind_tools([LOOK], tool_choice="any").invoke(cases.PROMPT)
    results = [
        ToolMessage(cases.look(**call["args"]), tool_call_id=call["id"])
        for call in asked.tool_calls
    ]
    told = [HumanMessage(cases.PROMPT), asked, *results]
    return model().bind_tools([LOOK]).invoke(told).text


def graph(messages=cases.MESSAGES):
    state = create_react_agent(model(), [LOOK]).invoke({"messages": messages})
    return state["messages"][-1].content


def graph_stream():
    parts = create_react_agent(model(), [LOOK]).stream(
        {"messages": cases.MESSAGES}, stream_mode="messages"
    )
    for chunk, _ in parts:
        yield chunk.content


def graph_tools():
    cases.look(**cases.MADE_UP)
    call = {"name": "look", "args": cases.MADE_UP, "id": "call1"}
    asked, result = AIMessage("", tool_calls=[call]), ToolMessage(cases.SEEN, tool_call_id="call1")
    return graph([HumanMessage(cases.PROMPT), asked, result])


def embeddings():
    encoder = OpenAIEmbeddings(
        model=cases.ENCODER,
        base_url=cases.EMBEDDINGS + "/v1",
        api_key=cases.KEY,
        check_embedding_ctx_length=False,  # it counts with OpenAI's own tokens
    )
    return encoder.embed_documents(cases.TEXTS)


def cancel():
    chunks = model(cases.ENDLESS).stream(cases.PROMPT)
    next(chunks)
    chunks.close()


if WHICH == "langgraph":
    cases.report(
        chat=graph, stream=graph_stream, tools=graph_tools, overflow=lambda: graph(cases.TOO_LONG)
    )
else:
    more = {"embeddings": embeddings} if WHICH == "openai" else {}
    cases.report(
        chat=lambda: model().invoke(cases.PROMPT).text,
        stream=stream,
        schema=lambda: model().with_structured_output(cases.Person).invoke(cases.PROMPT),
        tools=tools,
        cancel=cancel,
        overflow=lambda: model().invoke(cases.TOO_LONG),
        **more,
    )
