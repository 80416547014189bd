// @anthropic-ai/sdk: messages.
import Anthropic from "@anthropic-ai/sdk";
import * as cases from "./cases.mjs";

const client = new Anthropic({ baseURL: cases.CHAT, apiKey: cases.KEY });
const endless = new Anthropic({ baseURL: cases.ENDLESS, apiKey: cases.KEY });
const asked = { model: cases.MODEL, max_tokens: 400, messages: cases.MESSAGES };
const ask = (more = {}) => client.messages.create({ ...asked, ...more });
const tool = {
  name: "look",
  description: cases.FUNCTION.description,
  input_schema: cases.ARGUMENTS,
};

async function* stream() {
  for await (const event of client.messages.stream(asked)) {
    if (event.type === "content_block_delta") yield event.delta.text;
  }
}

async function tools() {
  const { content } = await ask({ tools: [tool], tool_choice: { type: "any" } });
  const results = content
    .filter((block) => block.type === "tool_use")
    .map((block) => ({
      type: "tool_result",
      tool_use_id: block.id,
      content: cases.look(block.input),
    }));
  const messages = [
    ...cases.MESSAGES,
    { role: "assistant", content },
    { role: "user", content: results },
  ];
  return (await ask({ messages, tools: [tool] })).content[0].text;
}

await cases.report({
  chat: async () => (await ask()).content[0].text,
  stream,
  schema: async () => {
    const format = { type: "json_schema", schema: cases.PERSON };
    return (await ask({ output_config: { format } })).content[0].text;
  },
  tools,
  cancel: async () => {
    for await (const event of endless.messages.stream({ ...asked, max_tokens: 16000 })) {
      if (event.type === "content_block_delta") break;
    }
  },
  overflow: () => ask({ messages: cases.TOO_LONG }),
});
