// Thimble in WebAssembly: loads a .pte that is in memory and generates text, in browsers and in node.
//
//     const module = await WebAssembly.compileStreaming(fetch("thimble.wasm"));
//     const model = await Model.load(module, bytes);
//     const stats = model.generate("Once upon a time", { maxNewTokens: 40 }, (text) => show(text));
//     model.close();
//
// generate() runs until the answer ends: call it in a worker, not on a page's main thread.

import { systemCalls } from "./wasi.mjs";

const ERROR_BYTES = 1024;

/** An error that the runner reports, as one sentence. */
export class RunnerError extends Error {
  name = "RunnerError";
}

/** A loaded model, with its own key/value cache. */
export class Model {
  #exports;
  #onText = null;
  #thrown = null;
  #runner = 0;
  #bytes = 0;

  /**
   * Loads a model from its file's bytes, which are copied.
   * @param {WebAssembly.Module} module thimble.wasm
   * @param {Uint8Array} bytes
   * @param {{name?: string}} options `name`: what errors call the model
   * @returns {Promise<Model>}
   * @throws {RunnerError} the file is damaged, or made for another delegate, or there is no memory
   */
  static async load(module, bytes, { name = "the model" } = {}) {
    const model = new Model();
    const thimble = { on_text: (text, size) => model.#receive(text, size) };
    const system = systemCalls(() => model.#exports.memory);
    const instance = await WebAssembly.instantiate(module, { thimble, ...system });
    model.#exports = instance.exports;
    model.#exports._initialize();
    model.#open(bytes, name);
    return model;
  }

  /**
   * Continues a prompt. The key/value cache keeps what it has of it.
   * @param {string} prompt
   * @param {object} options as the command line's; `maxNewTokens` 0: until the answer ends
   * @param {(text: string) => boolean | void} onText receives the text in pieces; false ends it
   * @returns {object} the statistics of the answer
   * @throws {RunnerError}
   */
  generate(prompt, options, onText) {
    const { maxNewTokens = 0, temperature = 0, topK = 0, topP = 1, minP = 0, seed = 0n } = options;
    this.#onText = onText;
    this.#thrown = null;
    this.#call((frame) => {
      const text = frame.text(prompt);
      const struct = frame.take(32);
      const view = frame.view();
      view.setBigInt64(struct, BigInt(maxNewTokens), true);
      view.setFloat32(struct + 8, temperature, true);
      view.setInt32(struct + 12, topK, true);
      view.setFloat32(struct + 16, topP, true);
      view.setFloat32(struct + 20, minP, true);
      view.setBigUint64(struct + 24, BigInt(seed), true);
      const callback = this.#exports.thimble_web_callback();
      const { thimble_generate: generate } = this.#exports;
      return generate(this.#runner, text.at, text.size, struct, callback, 0, frame.error, ERROR_BYTES);
    });
    if (this.#thrown !== null) throw this.#thrown;
    return this.stats;
  }

  /** The statistics of the last answer, as `--json` writes them. */
  get stats() {
    const at = this.#exports.thimble_stats(this.#runner);
    return JSON.parse(this.#string(at));
  }

  /** Frees the model; it cannot be used any more. */
  close() {
    this.#exports.thimble_free(this.#runner);
    this.#exports.thimble_web_release(this.#bytes);
    this.#exports = null; // and with it the memory
  }

  #open(bytes, name) {
    this.#bytes = this.#exports.thimble_web_allocate(bytes.length);
    if (this.#bytes === 0) {
      throw new RunnerError(`there is no memory for ${bytes.length} bytes: use a smaller model`);
    }
    new Uint8Array(this.#exports.memory.buffer).set(bytes, this.#bytes);
    this.#call((frame) => {
      const called = frame.text(`${name}\0`);
      const options = frame.take(12);
      frame.view().setInt32(options, 1, true); // one thread
      frame.view().setInt32(options + 4, 0, true); // the file's own type of cache
      frame.view().setInt32(options + 8, 0, true);
      const { thimble_load_bytes: load } = this.#exports;
      const size = bytes.length;
      this.#runner = load(this.#bytes, size, called.at, options, frame.error, ERROR_BYTES);
      return this.#runner === 0 ? 1 : 0;
    });
  }

  /** Calls `work` with memory that lives as long as the call; throws its error if it returns 1. */
  #call(work) {
    const taken = [];
    const take = (size) => {
      taken.push(this.#exports.thimble_web_allocate(size));
      return taken.at(-1);
    };
    const frame = {
      take,
      error: take(ERROR_BYTES),
      view: () => new DataView(this.#exports.memory.buffer), // memory may have grown
      text: (string) => {
        const encoded = new TextEncoder().encode(string);
        const at = take(Math.max(encoded.length, 1));
        new Uint8Array(this.#exports.memory.buffer).set(encoded, at);
        return { at, size: encoded.length };
      },
    };
    try {
      if (work(frame) !== 0) throw new RunnerError(this.#string(frame.error));
    } finally {
      taken.forEach((at) => this.#exports.thimble_web_release(at));
    }
  }

  /** A piece of the answer; an error of the callback ends it, and is thrown at its end. */
  #receive(text, size) {
    const bytes = new Uint8Array(this.#exports.memory.buffer, text, size);
    try {
      return this.#onText(new TextDecoder().decode(bytes.slice())) === false ? 0 : 1;
    } catch (error) {
      this.#thrown = error;
      return 0;
    }
  }

  /** The zero-terminated text at an address. */
  #string(at) {
    const memory = new Uint8Array(this.#exports.memory.buffer);
    return new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)));
  }
}
