// openai: chat completions and embeddings.
import OpenAI from "openai";
import * as cases from "./cases.mjs";

const [client, endless, encoder] = [cases.CHAT, cases.ENDLESS, cases.EMBEDDINGS].map(
  (address) => new OpenAI({ baseURL: `${address}/v1`, apiKey: cases.KEY }),
);
const ask = (more = {}, from = client) =>
  from.chat.completions.create({ model: cases.MODEL, messages: cases.MESSAGES, ...more });

async function* stream() {
  for await (const chunk of await ask({ stream: true })) yield chunk.choices[0].delta.content;
}

async function tools() {
  const asked = await ask({ tools: [cases.TOOL], tool_choice: "required" });
  const { message } = asked.choices[0];
  const results = message.tool_calls.map((call) => ({
    role: "tool",
    tool_call_id: call.id,
    content: cases.look(JSON.parse(call.function.arguments)),
  }));
  const messages = [...cases.MESSAGES, message, ...results];
  return (await ask({ messages, tools: [cases.TOOL] })).choices[0].message.content;
}

const response_format = { type: "json_schema", json_schema: { name: "person", schema: cases.PERSON } };

await cases.report({
  chat: async () => (await ask()).choices[0].message.content,
  stream,
  schema: async () => (await ask({ response_format })).choices[0].message.content,
  tools,
  embeddings: async () => {
    const answer = await encoder.embeddings.create({ model: cases.ENCODER, input: cases.TEXTS });
    return answer.data.map((one) => one.embedding);
  },
  cancel: async () => {
    for await (const chunk of await ask({ stream: true }, endless)) if (chunk) break;
  },
  overflow: () => ask({ messages: cases.TOO_LONG }),
});
