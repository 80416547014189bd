// ollama: its own interface. It has no word for a call that there must be.
import { Ollama } from "ollama";
import * as cases from "./cases.mjs";

const client = new Ollama({ host: cases.CHAT });
const endless = new Ollama({ host: cases.ENDLESS });
const asked = { model: cases.MODEL, messages: cases.MESSAGES };
const ask = (more = {}, from = client) => from.chat({ ...asked, ...more });

async function* stream() {
  for await (const part of await ask({ stream: true })) yield part.message.content;
}

async function tools() {
  const call = { function: { name: "look", arguments: cases.MADE_UP } };
  const messages = [
    ...cases.MESSAGES,
    { role: "assistant", content: "", tool_calls: [call] },
    { role: "tool", tool_name: "look", content: cases.look(cases.MADE_UP) },
  ];
  return (await ask({ messages, tools: [cases.TOOL] })).message.content;
}

await cases.report({
  chat: async () => (await ask()).message.content,
  stream,
  schema: async () => (await ask({ format: cases.PERSON })).message.content,
  tools,
  cancel: async () => {
    const parts = await ask({ stream: true }, endless);
    for await (const part of parts) if (part) break;
    parts.abort();
  },
  overflow: () => ask({ messages: cases.TOO_LONG }),
});
