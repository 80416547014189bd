// What a model needs and what there is. A page that runs out of memory is ended without a word, so
// this is asked before a byte is read.

import { RunnerError } from "./errors.mjs";

const MOST = 2 ** 32 - 2 ** 16; // of WebAssembly's addresses
// The tokenizer, the text, and what else is on the heap; caches and activations ask for their own.
export const HEAP_BYTES = 48 * 2 ** 20;

/**
 * @param {string} name what errors call the model
 * @param {number} size of its file, in bytes; caches are asked for when the file tells their size
 * @throws {RunnerError} the model cannot fit
 */
export function checkMemory(name, size) {
  const need = size + HEAP_BYTES;
  if (need > MOST) refuse(name, need, `a page can have ${inUnits(MOST)}`);
  const device = (globalThis.navigator?.deviceMemory ?? Infinity) * 2 ** 30; // rounded by browsers
  if (need > device) refuse(name, need, `this device has about ${inUnits(device)}`);
}

export function refuse(name, need, limit) {
  const sentence = `${name} needs at least ${inUnits(need)} of memory, but ${limit}`;
  throw new RunnerError(`${sentence}: use a smaller model`);
}

/** A size as people read it: "93 MB". */
export function inUnits(bytes) {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  if (bytes < 1e6) return `${Math.ceil(bytes / 1e3)} kB`;
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}
