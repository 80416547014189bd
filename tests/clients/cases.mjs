// What each client of Node is asked for, and what is expected of it: cases.py in JavaScript.
export const [CHAT, ENDLESS, EMBEDDINGS] = process.argv.slice(2);
export const MODEL = "stories";
export const ENCODER = "encoder";
export const KEY = "none";
export const PROMPT = "Once upon a time";
export const MESSAGES = [{ role: "user", content: PROMPT }];
export const LONG = PROMPT.repeat(3000);
export const TOO_LONG = [{ role: "user", content: LONG }];
export const TEXTS = ["The cat sat on the mat.", "Stock markets fell."];
export const MADE_UP = { thing: "dog", close: true };
export const PERSON = {
  type: "object",
  properties: { name: { type: "string", enum: ["Lily", "Ben"] }, old: { type: "boolean" } },
  required: ["name", "old"],
  additionalProperties: false,
};
export const ARGUMENTS = {
  type: "object",
  properties: { thing: { type: "string", enum: ["dog", "cat"] }, close: { type: "boolean" } },
  required: ["thing", "close"],
  additionalProperties: false,
};
export const FUNCTION = {
  name: "look",
  description: "Looks at a thing.",
  parameters: ARGUMENTS,
};
export const TOOL = { type: "function", function: FUNCTION };

const called = [];

export function look(input) {
  called.push(input);
  return "It is small.";
}

function isText(value) {
  return typeof value === "string" && value.trim() !== "";
}

const checks = {
  chat: async (run) => (isText(await run()) ? "" : "the answer has no text"),
  stream: async (run) => {
    const parts = [];
    for await (const part of await run()) if (part) parts.push(part);
    return parts.length > 3 && parts.every(isString) ? "" : `the stream is ${parts}`;
  },
  schema: async (run) => {
    const found = await run();
    const person = typeof found === "string" ? JSON.parse(found) : found;
    const right = ["Lily", "Ben"].includes(person.name) && typeof person.old === "boolean";
    return right ? "" : `the object is ${JSON.stringify(person)}`;
  },
  tools: async (run) => {
    const text = await run();
    const right = called.length && called.every((one) => ["dog", "cat"].includes(one.thing));
    if (!right) return `look() was called with ${JSON.stringify(called)}`;
    return isText(text) ? "" : `the answer is ${text}`;
  },
  embeddings: async (run) => {
    const rows = await run();
    const right = rows.every((row) => Math.abs(row.reduce((s, x) => s + x * x, 0) - 1) < 1e-3);
    return right && rows.length === TEXTS.length ? "" : "the rows are wrong";
  },
  cancel: async (run) => {
    const [before, brokenOff] = [await ended(), await ended("499")];
    await run();
    while ((await metric(/^thimble_running\{[^}]*\} (\S+)$/gm)) > 0 || (await ended()) === before) {
      await new Promise((resolve) => setTimeout(resolve, 100)); // at last the context is full
    }
    return (await ended("499")) > brokenOff ? "" : "the server goes on";
  },
  overflow: async (run) => {
    try {
      return `the answer is ${await run()}`;
    } catch (error) {
      return /context/.test(String(error)) ? "" : `the error is ${error}`;
    }
  },
};

function isString(value) {
  return typeof value === "string";
}

// How many answers have ended so.
function ended(status = "\\d+") {
  const labels = `[^}]*model="${MODEL}",[^}]*status="${status}"[^}]*`;
  return metric(new RegExp(`^thimble_requests_total\\{${labels}\\} (\\S+)$`, "gm"));
}

async function metric(pattern) {
  const text = await (await fetch(`${ENDLESS}/metrics`)).text();
  return [...text.matchAll(pattern)].reduce((sum, match) => sum + Number(match[1]), 0);
}

// Runs the cases and prints a line of JSON: of each "" if it works, else what is wrong.
export async function report(cases) {
  const found = {};
  for (const [name, run] of Object.entries(cases)) {
    try {
      found[name] = await checks[name](run);
    } catch (error) {
      console.error(error);
      found[name] = String(error).slice(0, 300) || "failed";
    }
  }
  console.log(`\n${JSON.stringify(found)}`);
  process.exit(0);
}
