// A model in thimble.wasm, in the thread that calls it: what worker.mjs runs.
//
// Views of the module's memory are taken anew for each use: they end when it grows.

import { RunnerError } from "./errors.mjs";
import { HEAP_BYTES, checkMemory, inUnits } from "./memory.mjs";
import { readAll } from "./source.mjs";
import {
  OPTIONS_BYTES,
  biasesOf,
  constraintOf,
  numbersOf,
  stopsOf,
  writeOptions,
} from "./options.mjs";
import { startTeam } from "./team.mjs";
import { systemCalls } from "./wasi.mjs";

const ERROR_BYTES = 1024;
const TOKEN_BYTES = 24; // of thimble_token

/** A loaded model, with its own key/value cache. */
export class Runner {
  #exports;
  #memory; // its own, or the one that threads share
  #threads = 1;
  #numbers = []; // of an answer, as the module lists them
  #sampling = {}; // of the file
  #tokens = [];
  #onText = null;
  #thrown = null;
  #runner = 0;
  #bytes = 0;

  /**
   * Reads a model's file into the module's memory and loads it.
   * @param {{module: WebAssembly.Module, threads: number, memory?: WebAssembly.Memory}} build of
   *   loadBuild(); more than one thread share the memory
   * @param {{name: string, size: number, stream: ReadableStream}} file of openSource()
   * @param {{verify?: boolean, onProgress?: (loaded: number, total: number) => void}} options
   *   `verify`: also checks the weights' checksums
   * @returns {Promise<Runner>}
   * @throws {RunnerError} the file is damaged, or made for another delegate, or there is no memory
   */
  static async load(build, file, { verify = false, onProgress = () => {} } = {}) {
    checkMemory(file.name, file.size);
    const runner = new Runner();
    const thimble = {
      on_text: (text, size) => runner.#receive(text, size),
      on_token: (chosen, top, count) => runner.#receiveToken(chosen, top, count),
    };
    const { module, threads, memory } = build;
    const system = systemCalls(() => runner.#memory);
    const instance = await WebAssembly.instantiate(module, { thimble, ...system, env: { memory } });
    runner.#exports = instance.exports;
    runner.#memory = memory ?? instance.exports.memory;
    runner.#threads = threads;
    runner.#exports._initialize();
    runner.#numbers = JSON.parse(runner.#string(instance.exports.thimble_answer_numbers()));
    if (threads > 1) await startTeam(build, runner.#exports);
    await runner.#read(file, onProgress);
    runner.#open(file);
    runner.#sampling = JSON.parse(runner.#string(runner.#exports.thimble_file_settings(runner.#runner)));
    if (verify) {
      runner.#call(({ error }) => runner.#exports.thimble_verify(runner.#runner, error, ERROR_BYTES));
    }
    return runner;
  }

  /**
   * Continues a prompt. The key/value cache keeps what it has of it.
   * @param {string} prompt
   * @param {object} options of index.d.ts
   * @param {(text: string) => boolean | void} onText receives the text in pieces; false ends it
   * @returns {object} the statistics of the answer
   * @throws {RunnerError}
   */
  generate(prompt, options, onText) {
    this.#answer(prompt, options, onText, (text, given, callback, frame) => {
      const { thimble_generate: generate } = this.#exports;
      const { at, size } = text;
      return generate(this.#runner, at, size, given, callback, 0, frame.error, ERROR_BYTES);
    });
    return this.stats;
  }

  /**
   * Begins a conversation beside those that there are.
   * @param {string} system the system message; "": none
   * @param {[string, string][]} turns messages and answers with which it begins
   * @param {bigint[]} gone the numbers of conversations to forget
   * @returns {bigint} its number, above 0
   * @throws {RunnerError}
   */
  beginChat(system, turns, gone) {
    const { thimble_chat_begin: begin, thimble_chat_end: end } = this.#exports;
    const { thimble_chat_add: add } = this.#exports;
    let number;
    this.#call((frame) => {
      const { at, size } = frame.text(system);
      gone.forEach((one) => end(this.#runner, one));
      number = begin(this.#runner, at, size, frame.error, ERROR_BYTES);
      return number < 0n ? 1 : 0;
    });
    for (const turn of turns) {
      this.#call((frame) => {
        const [message, answer] = turn.map((text) => frame.text(text));
        const texts = [message.at, message.size, answer.at, answer.size];
        return add(this.#runner, ...texts, frame.error, ERROR_BYTES);
      });
    }
    return number;
  }

  /**
   * Answers the next message of a conversation, which the model's template renders.
   * @param {string} message
   * @param {object} options of index.d.ts; `system` replaces the system message
   * @param {(text: string) => boolean | void} onText as of generate()
   * @param {bigint} conversation of beginChat(), or 0n: the first
   * @returns {object} the statistics, and `dropped_turns` that no longer fitted the context
   * @throws {RunnerError}
   */
  chat(message, { system = "", ...options }, onText, conversation) {
    let dropped;
    this.#chooseChat(conversation);
    this.#startChat(system);
    this.#answer(message, options, onText, (text, given, callback, frame) => {
      const { thimble_chat_say: say } = this.#exports;
      const turns = frame.take(8);
      frame.view().setBigInt64(turns, 0n, true);
      const { at, size } = text;
      const end = [given, callback, 0, turns, frame.error, ERROR_BYTES];
      const failed = say(this.#runner, at, size, ...end);
      dropped = Number(frame.view().getBigInt64(turns, true));
      return failed;
    });
    return { ...this.stats, dropped_turns: dropped };
  }

  /** Whether the model has a chat template, so that chat() works. */
  get hasTemplate() {
    try {
      this.#startChat("");
      return true;
    } catch (error) {
      if (error instanceof RunnerError) return false;
      throw error;
    }
  }

  /** Removes every turn of a conversation; the system message stays. */
  resetChat(conversation) {
    this.#chooseChat(conversation);
    this.#call(({ error }) => this.#exports.thimble_chat_reset(this.#runner, error, ERROR_BYTES));
  }

  /** The statistics of the last answer, as `--json` writes them. */
  get stats() {
    return JSON.parse(this.#string(this.#exports.thimble_stats(this.#runner)));
  }

  /** The last answer's tokens, if its options had `logprobs`: see index.d.ts. */
  get logprobs() {
    return this.#tokens;
  }

  /** Allocates the file's bytes, and for a moment what the heap will need: both or an error. */
  async #read(file, onProgress) {
    const { thimble_web_allocate: allocate, thimble_web_release: release } = this.#exports;
    this.#bytes = allocate(file.size);
    const heap = this.#bytes === 0 ? 0 : allocate(HEAP_BYTES);
    if (heap === 0) {
      const need = inUnits(file.size + HEAP_BYTES);
      throw new RunnerError(
        `there is no memory for ${file.name}, which needs at least ${need}: close other pages, ` +
          "or use a smaller model",
      );
    }
    release(heap); // it stays the module's
    await readAll(file, (chunk, at) => {
      new Uint8Array(this.#memory.buffer).set(chunk, this.#bytes + at);
      onProgress(at + chunk.length, file.size);
    });
  }

  #open({ name, size }) {
    this.#call((frame) => {
      const called = frame.text(`${name}\0`);
      const options = frame.take(12);
      frame.view().setInt32(options, this.#threads, true);
      frame.view().setInt32(options + 4, 0, true); // the file's own type of cache
      frame.view().setInt32(options + 8, 0, true);
      const { thimble_load_bytes: load } = this.#exports;
      this.#runner = load(this.#bytes, size, called.at, options, frame.error, ERROR_BYTES);
      return this.#runner === 0 ? 1 : 0;
    });
  }

  #chooseChat(conversation) {
    this.#call(({ error }) => {
      const { thimble_chat_choose: choose } = this.#exports;
      return choose(this.#runner, conversation, error, ERROR_BYTES);
    });
  }

  #startChat(system) {
    this.#call((frame) => {
      const { at, size } = frame.text(system);
      const { thimble_chat_start: start } = this.#exports;
      return start(this.#runner, at, size, frame.error, ERROR_BYTES);
    });
  }

  /** Constrains the answer, and calls `work` with the text and the options in memory. */
  #answer(text, options, onText, work) {
    const { kind, text: constraint } = constraintOf(options);
    this.#call((frame) => {
      const { at, size } = frame.text(constraint);
      const { thimble_constrain: constrain } = this.#exports;
      return constrain(this.#runner, kind, at, size, frame.error, ERROR_BYTES);
    });
    this.#use(options);
    this.#onText = onText;
    this.#tokens = [];
    this.#thrown = null;
    this.#call((frame) => {
      const given = frame.take(OPTIONS_BYTES);
      const encoded = frame.text(text);
      writeOptions(frame.view(), given, options);
      return work(encoded, given, this.#exports.thimble_web_callback(), frame);
    });
    if (this.#thrown !== null) throw this.#thrown;
  }

  /** Sets all but the seed. */
  #use(options) {
    const { thimble_settings_new: create, thimble_settings_free: free } = this.#exports;
    const { thimble_settings_number: number, thimble_settings_bias: bias } = this.#exports;
    const { thimble_settings_stop: stop, thimble_use_settings: use } = this.#exports;
    const { thimble_settings_tokens: tokens, thimble_web_token_callback: onToken } = this.#exports;
    const settings = create();
    const set = (work) => this.#call((frame) => work(frame, frame.error, ERROR_BYTES));
    try {
      for (const [name, value] of numbersOf(options, this.#numbers, this.#sampling)) {
        set((frame, ...end) => number(settings, frame.text(`${name}\0`).at, value, ...end));
      }
      for (const [token, value] of biasesOf(options)) {
        set((_frame, ...end) => bias(settings, token, value, ...end));
      }
      for (const text of stopsOf(options)) {
        set((frame, ...end) => {
          const { at, size } = frame.text(text);
          return stop(settings, at, size, ...end);
        });
      }
      if (options.logprobs !== undefined) {
        set((_frame, ...end) => tokens(settings, options.logprobs, onToken(), 0, ...end));
      }
      use(this.#runner, settings);
    } finally {
      free(settings);
    }
  }

  /** Calls `work` with memory that lives as long as the call; throws its error if it returns 1. */
  #call(work) {
    if (this.#exports === null) throw new RunnerError("the model has ended: load it again");
    const taken = [];
    const take = (size) => {
      taken.push(this.#exports.thimble_web_allocate(size));
      if (taken.at(-1) === 0) throw new RunnerError(`there is no memory for ${inUnits(size)}`);
      return taken.at(-1);
    };
    const frame = {
      take,
      view: () => new DataView(this.#memory.buffer),
      text: (string) => {
        const encoded = new TextEncoder().encode(string);
        const at = take(Math.max(encoded.length, 1));
        new Uint8Array(this.#memory.buffer).set(encoded, at);
        return { at, size: encoded.length };
      },
    };
    try {
      frame.error = take(ERROR_BYTES);
      if (work(frame) !== 0) throw new RunnerError(this.#string(frame.error));
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      const inThread = this.#exports.thimble_web_failed?.();
      this.#exports = null; // what is in its memory is no longer whole
      const reason = inThread ? "one of its threads has failed" : error.message;
      const why = `${reason}: there may be too little memory`;
      throw new RunnerError(`the model has ended (${why}): load it again, or use a smaller one`);
    } finally {
      taken.forEach((at) => this.#exports?.thimble_web_release(at));
    }
  }

  /** A piece of the answer; an error of the callback ends it, and is thrown at its end. */
  #receive(text, size) {
    const bytes = new Uint8Array(this.#memory.buffer, text, size);
    try {
      return this.#onText(new TextDecoder().decode(bytes.slice())) === false ? 0 : 1;
    } catch (error) {
      this.#thrown = error;
      return 0;
    }
  }

  #receiveToken(chosen, top, count) {
    const likeliest = Array.from({ length: count }, (_, i) => this.#token(top + i * TOKEN_BYTES));
    this.#tokens.push({ ...this.#token(chosen), top: likeliest });
  }

  /** The thimble_token at an address. */
  #token(at) {
    const view = new DataView(this.#memory.buffer, at, TOKEN_BYTES);
    const text = new Uint8Array(this.#memory.buffer, view.getUint32(16, true), view.getUint32(20, true));
    return { id: view.getInt32(0, true), logprob: view.getFloat64(8, true), bytes: text.slice() };
  }

  /** The zero-terminated text at an address. */
  #string(at) {
    const memory = new Uint8Array(this.#memory.buffer);
    return new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)));
  }
}
