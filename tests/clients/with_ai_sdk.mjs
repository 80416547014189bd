// Vercel's AI SDK, with a provider that the last argument names.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, isStepCount, jsonSchema, Output, streamText, tool } from "ai";
import * as cases from "./cases.mjs";

const which = process.argv[5];

function provider(address) {
  const settings = { baseURL: `${address}/v1`, apiKey: cases.KEY, name: "thimble" };
  if (which === "openai") return createOpenAI(settings); // responses, its default
  if (which === "anthropic") return createAnthropic(settings);
  return createOpenAICompatible({ ...settings, supportsStructuredOutputs: true });
}

const model = provider(cases.CHAT)(cases.MODEL);
const prompt = cases.PROMPT;
const ask = (more = {}) => generateText({ model, prompt, maxRetries: 0, ...more });
const found = {
  chat: async () => (await ask()).text,
  stream: () => streamText({ model, prompt }).textStream,
  schema: async () => {
    return (await ask({ output: Output.object({ schema: jsonSchema(cases.PERSON) }) })).output;
  },
  tools: async () => {
    const look = tool({
      description: cases.FUNCTION.description,
      inputSchema: jsonSchema(cases.ARGUMENTS),
      execute: async (input) => cases.look(input),
    });
    const answer = await ask({
      tools: { look },
      toolChoice: "required",
      stopWhen: isStepCount(2),
      prepareStep: ({ stepNumber }) => (stepNumber ? { toolChoice: "auto" } : {}),
    });
    return answer.text;
  },
  cancel: async () => {
    const stop = new AbortController();
    const endless = provider(cases.ENDLESS)(cases.MODEL);
    const { textStream } = streamText({ model: endless, prompt, abortSignal: stop.signal });
    for await (const part of textStream) if (part) break;
    stop.abort();
  },
  overflow: () => ask({ prompt: cases.LONG }),
};
if (which !== "anthropic") {
  found.embeddings = async () => {
    const encoder = provider(cases.EMBEDDINGS).embeddingModel(cases.ENCODER);
    return (await embedMany({ model: encoder, values: cases.TEXTS })).embeddings;
  };
}
await cases.report(found);
