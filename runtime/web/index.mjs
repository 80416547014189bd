// Thimble for browsers and node: a model in a worker, so that the page never waits.
//
//     const model = await load("model.pte");
//     for await (const text of model.chat("Who wrote Faust?")) show(text);
//     model.free();
//
// index.d.ts has the types.

import { MOST_THREADS } from "./builds.mjs";
import { RunnerError } from "./errors.mjs";
import { makeStop } from "./stop.mjs";
import { inNode, startThread } from "./thread.mjs";

export { RunnerError };

const FIRST_CHAT = 0n; // the conversation of chat()

export const load = (source, options) => Model.load(source, options);

class Model {
  /** What is known of the model: its name, its file's size in bytes, whether it has a template. */
  info = null;
  /** The statistics of the last answer; null before it. */
  stats = null;
  /** The last answer's tokens, if its options had `logprobs`. */
  logprobs = [];
  #thread = null;
  #call = null; // the one at work
  #stop = null;
  #gone = []; // the numbers of conversations whose Chat is no longer used
  #chats = new FinalizationRegistry((number) => this.#gone.push(number));

  static async load(source, { onProgress, verify = false, threads } = {}) {
    checkThreads(threads);
    const message = { call: "load", source: await sendable(source), verify, threads };
    const model = new Model();
    const onEnd = (why) => model.#end(`the worker has ended (${why}): load the model again`);
    model.#thread = await startThread((message) => model.#receive(message), onEnd);
    try {
      model.info = Object.freeze(await model.#ask(message, { onProgress }));
    } catch (error) {
      model.free();
      throw error;
    }
    return model;
  }

  generate(prompt, options = {}) {
    return this.#answer("generate", prompt, options);
  }

  chat(message, options = {}) {
    return this.#say(FIRST_CHAT, message, options);
  }

  async resetChat() {
    await this.#reset(FIRST_CHAT);
  }

  async newChat({ system = "", messages = [] } = {}) {
    const turns = turnsOf(messages);
    const message = { call: "beginChat", system: String(system), turns, gone: this.#gone };
    const number = await this.#ask(message);
    this.#gone = this.#gone.filter((one) => !message.gone.includes(one));
    const chat = {
      say: (message, options = {}) => this.#say(number, message, options),
      reset: () => this.#reset(number),
    };
    this.#chats.register(chat, number);
    return Object.freeze(chat);
  }

  #say(conversation, message, options) {
    return this.#answer("chat", message, options, { conversation });
  }

  async #reset(conversation) {
    await this.#ask({ call: "resetChat", conversation });
  }

  stop() {
    this.#stop?.();
  }

  free() {
    this.#end("the model was freed");
  }

  /** Yields the pieces of an answer; leaving the loop stops it. */
  async *#answer(call, text, options, others = {}) {
    const { signal, stop } = makeStop();
    const pieces = [];
    let ended = false;
    let failure = null;
    let wake = () => {};
    const onText = (piece) => {
      pieces.push(piece);
      wake();
    };
    if (this.#call === null) this.#stop = stop;
    const end = this.#ask({ call, text: String(text), options, signal, ...others }, { onText })
      .then(({ stats, logprobs }) => void Object.assign(this, { stats, logprobs }))
      .catch((error) => void (failure = error))
      .finally(() => {
        ended = true;
        wake();
      });
    try {
      for (;;) {
        while (pieces.length > 0) yield pieces.shift();
        if (ended) break;
        await new Promise((resolve) => void (wake = resolve));
      }
    } finally {
      stop();
      await end;
    }
    if (failure !== null) throw failure;
  }

  #ask(message, handlers = {}) {
    if (this.#thread === null) return reject("the model was freed: load it again");
    if (this.#call !== null) return reject("the model is at work: stop() it, or wait for its end");
    return new Promise((resolve, reject) => {
      this.#thread.postMessage(message);
      this.#call = { resolve, reject, ...handlers };
    });
  }

  #receive(message) {
    if (this.#call === null) return;
    if ("text" in message) return this.#call.onText(message.text);
    if ("progress" in message) return this.#call.onProgress?.(message.progress);
    const { resolve, reject } = this.#call;
    this.#call = null;
    if ("error" in message) reject(new RunnerError(message.error));
    else resolve(message.value);
  }

  #end(why) {
    this.#thread?.terminate();
    this.#thread = null;
    this.#call?.reject(new RunnerError(why));
    this.#call = null;
  }
}

function checkThreads(threads) {
  if (threads === undefined) return;
  if (Number.isInteger(threads) && 1 <= threads && threads <= MOST_THREADS) return;
  throw new RunnerError(
    `threads is ${threads}, but must be a whole number from 1 to ${MOST_THREADS}, or left out`,
  );
}

/** Messages as pairs: what the user said, and the answer. */
function turnsOf(messages) {
  const isInTurn = ({ role }, i) => role === (i % 2 === 0 ? "user" : "assistant");
  if (messages.length % 2 === 0 && messages.every(isInTurn)) {
    const texts = messages.map(({ content }) => String(content));
    return Array.from({ length: texts.length / 2 }, (_, i) => texts.slice(2 * i, 2 * i + 2));
  }
  const roles = messages.map(({ role }) => role).join(", ") || "none";
  throw new RunnerError(
    `the roles of messages are ${roles}, but must be user and assistant in turn, assistant's last`,
  );
}

const reject = (sentence) => Promise.reject(new RunnerError(sentence));

/** What a worker can be sent: absolute URLs; not, in node, a file that is open here. */
async function sendable(source) {
  if (source instanceof URL) return source.href;
  if (typeof source === "string") {
    const page = globalThis.document?.baseURI ?? globalThis.location?.href;
    if (page === undefined) return source;
    try {
      return new URL(source, page).href;
    } catch {
      throw new RunnerError(`${source} is not a URL: give a model's, such as model.pte`);
    }
  }
  if (source instanceof Blob) return inNode ? new Uint8Array(await source.arrayBuffer()) : source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  }
  throw new RunnerError("a model is loaded from a URL, a file, or bytes");
}
