// What @ai-sdk/openai-compatible gets of a server: text, a stream, a call of a function and an
// object by schema, as one line of JSON. usage: node ai_sdk.mjs BASE_URL MODEL
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, name] = process.argv.slice(2);
const provider = createOpenAICompatible({
  name: "thimble",
  baseURL,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const model = provider(name);
const prompt = "Once upon a time";
const settings = { model, temperature: 0, maxRetries: 0 };
const found = {};

const text = await generateText({ ...settings, prompt, maxOutputTokens: 24 });
found.text = { text: text.text, reason: text.finishReason, usage: text.usage.outputTokens };

const stream = streamText({ ...settings, prompt, maxOutputTokens: 24 });
const parts = [];
for await (const part of stream.textStream) parts.push(part);
found.stream = {
  text: parts.join(""),
  reason: await stream.finishReason,
  usage: (await stream.usage).outputTokens,
};

const asked = [];
const tools = {
  look: tool({
    description: "Looks at a thing.",
    inputSchema: z.object({ thing: z.enum(["dog", "cat"]), close: z.boolean() }),
    execute: async (input) => {
      asked.push(input);
      return { seen: true };
    },
  }),
};
const called = await generateText({
  ...settings,
  messages: [{ role: "user", content: prompt }],
  tools,
  toolChoice: "required",
  maxOutputTokens: 200,
  stopWhen: isStepCount(2),
});
found.tools = {
  asked,
  steps: called.steps.length,
  reasons: called.steps.map((step) => step.finishReason),
};

const streamed = streamText({
  ...settings,
  prompt,
  tools,
  toolChoice: { type: "tool", toolName: "look" },
  maxOutputTokens: 200,
  stopWhen: isStepCount(1),
});
found.streamedTools = (await streamed.toolCalls).map((call) => call.input);

const person = z.object({ name: z.string().max(8), old: z.boolean() });
const object = await generateText({
  ...settings,
  prompt,
  output: Output.object({ schema: person }),
  maxOutputTokens: 200,
});
found.object = object.output;

const partials = [];
const objects = streamText({
  ...settings,
  prompt,
  output: Output.object({ schema: person }),
  maxOutputTokens: 200,
});
for await (const partial of objects.partialOutputStream) partials.push(partial);
found.streamedObject = partials.at(-1);

try {
  await generateText({ ...settings, prompt, temperature: 3 });
} catch (error) {
  found.refusal = { status: error.statusCode, message: error.message };
}
console.log(JSON.stringify(found));
