// Generates text with one build of the runner in node: node web_generate.mjs THIMBLE.wasm MODEL.pte WHAT
// [PROMPT TOKENS THREADS]. The text goes to standard output, statistics and errors to standard error.
import { readFile } from "node:fs/promises";
import { sharedMemory } from "../../runtime/web/builds.mjs";
import { RunnerError } from "../../runtime/web/errors.mjs";
import { Runner } from "../../runtime/web/runner.mjs";
import { openSource } from "../../runtime/web/source.mjs";
import { STACK_BYTES } from "../../runtime/web/team.mjs";

const [wasm, file, what, prompt = "Once upon a time", tokens = "40", threads = "1"] = process.argv.slice(2);
const options = { maxNewTokens: Number(tokens) };
const show = (text) => void process.stdout.write(text);

const uses = {
  generate: (model) => console.error(JSON.stringify(model.generate(prompt, options, show))),
  // Seven tokens, then the rest: the cache goes on.
  twice(model) {
    let text = "";
    model.generate(prompt, { maxNewTokens: 7 }, (piece) => void (text += piece));
    show(text);
    console.error(JSON.stringify(model.generate(prompt + text, options, show)));
  },
  stop(model) {
    let pieces = 0;
    console.error(JSON.stringify(model.generate(prompt, options, () => ++pieces < 3)));
    show(String(pieces));
  },
  settings(model) {
    const biased = { presencePenalty: 1.5, repetitionPenalty: 1.1, logitBias: { 260: 3 }, stop: [" the"] };
    console.error(JSON.stringify(model.generate(prompt, { ...options, ...biased }, show)));
    show("|");
    model.generate(prompt, options, show); // they are of one answer
  },
  logprobs(model) {
    model.generate(prompt, { ...options, logprobs: 2, presencePenalty: 1.5 }, () => {});
    const plain = (token) => ({ ...token, bytes: [...token.bytes], top: token.top?.map(plain) });
    show(JSON.stringify(model.logprobs.map(plain)));
    model.generate(prompt, options, () => {}); // they are of one answer
    console.error(JSON.stringify(model.logprobs));
  },
  throw(model) {
    const fail = () => {
      throw new TypeError("the page's own");
    };
    try {
      model.generate(prompt, options, fail);
    } catch (error) {
      show(`${error.name}: ${error.message}`);
    }
  },
  trap: (model) => model.generate(prompt, options, show),
  sample(model) {
    const sampling = { ...options, temperature: 0.8, topK: 40, topP: 0.9, minP: 0.05, seed: 7n };
    console.error(JSON.stringify(model.generate(prompt, sampling, show)));
  },
};

/** Gives helpers a stack that ends at once, so that they trap at their first work. */
function breakHelpers() {
  const instantiate = WebAssembly.instantiate;
  WebAssembly.instantiate = async (...given) => {
    const { exports } = await instantiate(...given);
    const allocate = exports.thimble_web_allocate;
    const broken = (size) => (size === STACK_BYTES ? 16 - STACK_BYTES : allocate(size));
    return { exports: { ...exports, thimble_web_allocate: broken } };
  };
}

try {
  if (what === "trap") breakHelpers();
  const module = await WebAssembly.compile(await readFile(wasm));
  const shares = WebAssembly.Module.imports(module).some(({ name }) => name === "memory");
  const build = { module, threads: Number(threads), memory: shares ? sharedMemory() : undefined };
  uses[what](await Runner.load(build, await openSource(file)));
} catch (error) {
  if (!(error instanceof RunnerError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
