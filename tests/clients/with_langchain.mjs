// @langchain/openai: chat completions and embeddings.
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import * as cases from "./cases.mjs";

const options = (address, model) => ({
  model,
  apiKey: cases.KEY,
  configuration: { baseURL: `${address}/v1` },
});
const model = new ChatOpenAI(options(cases.CHAT, cases.MODEL));
const look = tool((input) => cases.look(input), {
  name: "look",
  description: cases.FUNCTION.description,
  schema: cases.ARGUMENTS,
});

async function* stream() {
  for await (const chunk of await model.stream(cases.PROMPT)) yield chunk.content;
}

async function tools() {
  const asked = await model.bindTools([look], { tool_choice: "any" }).invoke(cases.PROMPT);
  const results = asked.tool_calls.map(
    (call) => new ToolMessage({ content: cases.look(call.args), tool_call_id: call.id }),
  );
  const messages = [new HumanMessage(cases.PROMPT), asked, ...results];
  return (await model.bindTools([look]).invoke(messages)).content;
}

await cases.report({
  chat: async () => (await model.invoke(cases.PROMPT)).content,
  stream,
  schema: () => model.withStructuredOutput(cases.PERSON).invoke(cases.PROMPT),
  tools,
  embeddings: () => {
    const encoder = new OpenAIEmbeddings(options(cases.EMBEDDINGS, cases.ENCODER));
    return encoder.embedDocuments(cases.TEXTS);
  },
  cancel: async () => {
    const endless = new ChatOpenAI(options(cases.ENDLESS, cases.MODEL));
    for await (const chunk of await endless.stream(cases.PROMPT)) if (chunk.content) break;
  },
  overflow: () => model.invoke(cases.LONG),
});
