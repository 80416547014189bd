// Uses of the installed npm package: node web_package.mjs WHAT MODEL [MORE]. It is copied to where
// the package is installed. The text goes to standard output, the last line of which is JSON.
import { readFile } from "node:fs/promises";
import { load, RunnerError } from "thimble-web";

const [what, file, more] = process.argv.slice(2);
const PROMPT = "Once upon a time";

async function textOf(answer) {
  let text = "";
  for await (const piece of answer) text += piece;
  return text;
}

/** The sentence of an error that must come. */
async function sentence(work) {
  try {
    await work();
  } catch (error) {
    if (error instanceof RunnerError) return error.message;
    throw error;
  }
  return "no error";
}

const uses = {
  async generate() {
    const progress = [];
    const model = await load(file, { verify: true, onProgress: (at) => progress.push(at) });
    const pieces = [];
    for await (const piece of model.generate(PROMPT, { maxNewTokens: 40 })) pieces.push(piece);
    const again = await textOf(model.generate(PROMPT, { maxNewTokens: 40 }));
    const { info, stats } = model;
    model.free();
    return { text: pieces.join(""), pieces: pieces.length, again, info, stats, end: progress.at(-1) };
  },
  async bytes() {
    const texts = [];
    const bytes = await readFile(file);
    for (const source of [bytes, bytes.buffer.slice(0), new Blob([bytes])]) {
      const model = await load(source);
      texts.push(await textOf(model.generate(PROMPT, { maxNewTokens: 40 })));
      model.free();
    }
    return texts;
  },
  async threads() {
    const found = { texts: [], threads: [], refused: [] };
    for (const threads of [1, 2, 5]) {
      const model = await load(file, { threads });
      found.texts.push(await textOf(model.generate(PROMPT, { maxNewTokens: 40 })));
      found.threads.push(model.stats.threads);
      model.free();
    }
    for (const threads of [0, 1.5, 17]) {
      found.refused.push(await sentence(() => load(file, { threads })));
    }
    return found;
  },
  async url() {
    const model = await load(new URL(more));
    const text = await textOf(model.generate(PROMPT, { maxNewTokens: 40 }));
    const { name } = model.info;
    model.free();
    return { text, name, missing: await sentence(() => load(`${more}.none`)) };
  },
  async chat() {
    const model = await load(file);
    const options = { maxNewTokens: 12 };
    const answers = [await textOf(model.chat(PROMPT, { ...options, system: "Be nice." }))];
    answers.push(await textOf(model.chat("Who was it?", options)));
    const cached = model.stats.cached_tokens;
    await model.resetChat();
    answers.push(await textOf(model.chat(PROMPT, options)));
    model.free();
    return { answers, cached, hasTemplate: model.info.hasTemplate };
  },
  async chats() {
    const model = await load(file);
    const options = { maxNewTokens: 12 };
    const system = "Be nice.";
    const first = await model.newChat({ system });
    const second = await model.newChat();
    const answers = [];
    for (const one of [PROMPT, "Who was it?", "Why?"]) {
      answers.push(await textOf(first.say(one, options)));
      await textOf(second.say(PROMPT, options));
      if (one === PROMPT) await second.reset();
      answers.push(await textOf(model.chat(one, { ...options, system })));
    }
    const said = [PROMPT, answers[0], "Who was it?", answers[2], "Why?", answers[4]];
    const messages = said.map((content, i) => ({ role: ["user", "assistant"][i % 2], content }));
    const third = await model.newChat({ system, messages });
    const resumed = await textOf(third.say("And?", options));
    const refused = [
      await sentence(() => model.newChat({ system: "word ".repeat(300) })),
      await sentence(() => model.newChat({ messages: messages.slice(1) })),
    ];
    await model.resetChat();
    answers.push(await textOf(first.say("And?", options)));
    model.free();
    return { answers, resumed, refused, freed: await sentence(() => second.reset()) };
  },
  async stop() {
    const model = await load(file);
    const reasons = [];
    for await (const _ of model.generate(PROMPT)) {
      model.stop();
      reasons.push(await sentence(() => model.generate("two at once").next()));
      reasons.push(await sentence(() => model.resetChat()));
      break;
    }
    reasons.push(model.stats.stop_reason);
    for await (const _ of model.generate(PROMPT)) model.stop();
    reasons.push(model.stats.stop_reason);
    const last = model.generate(PROMPT);
    await last.next();
    model.free();
    reasons.push(await sentence(() => textOf(last)));
    reasons.push(await sentence(() => model.generate("").next()));
    return reasons;
  },
  async constraints() {
    const model = await load(file);
    const choice = await textOf(model.generate(PROMPT, { choice: ["red", "green"] }));
    const properties = { a: { type: "boolean" } };
    const jsonSchema = { type: "object", properties, required: ["a"], additionalProperties: false };
    const json = await textOf(model.generate(PROMPT, { jsonSchema, maxNewTokens: 60 }));
    const free = await textOf(model.generate(PROMPT, { maxNewTokens: 8 }));
    model.free();
    return { choice, json, free };
  },
  async options() {
    const model = await load(file);
    const wrong = [
      { maxNewTokens: 0 },
      { topK: -1 },
      { temperature: NaN },
      { seed: 1.5 },
      { seed: 2n ** 64n },
      { regex: "(" },
      { regex: "a", choice: ["b"] },
    ];
    const sentences = [];
    for (const one of wrong) sentences.push(await sentence(() => model.generate("a", one).next()));
    sentences.push(await sentence(() => model.chat("a").next()));
    model.free();
    return sentences;
  },
  refused: () => sentence(() => load(file, { verify: true })),
};

console.log(JSON.stringify(await uses[what]()));
