// Which build of the runner this engine gets. One without relaxed SIMD refuses that build, but one
// that has it may compute it wrongly, as node 20 does, or round a product before the sum: a module
// of two instructions tells. Threads need memory that they share, which a page may have only if it
// is isolated from others (`crossOriginIsolated`).

import { RunnerError } from "./errors.mjs";

const RELAXED_MADD = [0xfd, 0x85, 0x02]; // f32x4.relaxed_madd
const RELAXED_DOT = [0xfd, 0x93, 0x02]; // i32x4.relaxed_dot_i8x16_i7x16_add_s

/**
 * A module with 64 bytes of memory and a function that computes the vector at 48 from those at 0,
 * 16 and 32 by one instruction.
 */
function probe(instruction) {
  const load = (at) => [0x41, 0x00, 0xfd, 0x00, 0x04, at]; // i32.const 0, v128.load
  const store = [0xfd, 0x0b, 0x04, 48];
  const code = [0, 0x41, 0, ...load(0), ...load(16), ...load(32), ...instruction, ...store, 0x0b];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...[1, 4, 1, 0x60, 0, 0], // types: () -> ()
    ...[3, 2, 1, 0], // functions
    ...[5, 3, 1, 0, 1], // memory: one page
    ...[7, 9, 2, 1, 0x6d, 2, 0, 1, 0x66, 0, 0], // exports: memory "m", function "f"
    ...[10, code.length + 2, 1, code.length, ...code],
  ]);
}

/** The result of an instruction on three vectors of 16 bytes, as bytes. */
function compute(instruction, ...inputs) {
  const module = new WebAssembly.Module(probe(instruction));
  const { m: memory, f: run } = new WebAssembly.Instance(module).exports;
  inputs.forEach((input, i) => {
    new Uint8Array(memory.buffer).set(new Uint8Array(input.buffer), 16 * i);
  });
  run();
  return memory.buffer.slice(48, 64);
}

function dotIsRight() {
  const values = Int8Array.from({ length: 16 }, (_, i) => -128 + 17 * i);
  const codes = Int8Array.from({ length: 16 }, (_, i) => (7 * i) % 16);
  const sums = Int32Array.of(1, -2, 3, -4);
  const expected = sums.map((sum, lane) =>
    [0, 1, 2, 3].reduce((total, i) => total + values[4 * lane + i] * codes[4 * lane + i], sum),
  );
  const found = new Int32Array(compute(RELAXED_DOT, values, codes, sums));
  return found.every((sum, lane) => sum === expected[lane]);
}

/** The square of 1 + 2^-12 is 1 + 2^-11 + 2^-24, whose last term a rounding loses. */
function maddIsFused() {
  const root = new Float32Array(4).fill(1 + 2 ** -12);
  const rounded = new Float32Array(4).fill(-1 - 2 ** -11);
  const found = new Float32Array(compute(RELAXED_MADD, root, root, rounded));
  return found.every((value) => value === 2 ** -24);
}

/** Whether the build with relaxed SIMD computes here what it should. */
export function relaxedWorks() {
  if (![RELAXED_DOT, RELAXED_MADD].every((one) => WebAssembly.validate(probe(one)))) return false;
  return dotIsRight() && maddIsFused();
}

// A memory that is shared, and an atomic load from it.
const SHARED_MEMORY = new Uint8Array([
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
  ...[1, 4, 1, 0x60, 0, 0],
  ...[3, 2, 1, 0],
  ...[5, 4, 1, 3, 1, 1],
  ...[10, 11, 1, 9, 0, 0x41, 0, 0xfe, 0x10, 2, 0, 0x1a, 0x0b],
]);
const FIRST_PAGES = 256; // as the module was linked
const MOST_PAGES = [65535, 32768, 16384]; // a phone may not have as many addresses
const DEFAULT_THREADS = 4; // more wait for memory
export const MOST_THREADS = 16;

/** The memory of the build with threads; null where there is none. */
export function sharedMemory() {
  if (globalThis.crossOriginIsolated === false || typeof SharedArrayBuffer !== "function") return null;
  if (!WebAssembly.validate(SHARED_MEMORY)) return null;
  for (const maximum of MOST_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: FIRST_PAGES, maximum, shared: true });
    } catch {
      // there are not so many addresses
    }
  }
  return null;
}

/** How many threads a model gets that nobody has asked for. */
async function processors() {
  if (globalThis.navigator?.hardwareConcurrency) return navigator.hardwareConcurrency;
  if (typeof process !== "object") return 1;
  const os = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:os");
  return os.availableParallelism();
}

/**
 * The build for this engine, compiled, and what it runs with.
 * @param {number | undefined} wanted threads; undefined: as many as are worth it
 * @returns {Promise<{module: WebAssembly.Module, threads: number, memory?: WebAssembly.Memory}>}
 *   one thread where memory cannot be shared
 * @throws {RunnerError} it cannot be read
 */
export async function loadBuild(wanted) {
  const relaxed = relaxedWorks();
  const threads = wanted ?? Math.min(await processors(), DEFAULT_THREADS);
  const memory = relaxed && threads > 1 ? sharedMemory() : null;
  if (memory !== null) {
    const url = new URL("./thimble-threads.wasm", import.meta.url);
    return { module: await compile(url), threads, memory };
  }
  // Bundlers find files by these expressions.
  const url = relaxed
    ? new URL("./thimble-relaxed.wasm", import.meta.url)
    : new URL("./thimble.wasm", import.meta.url);
  return { module: await compile(url), threads: 1 };
}

async function compile(url) {
  if (url.protocol === "file:" && typeof process === "object") {
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
    return WebAssembly.compile(await readFile(url).catch(() => missing(url)));
  }
  const response = await fetch(url).catch(() => null);
  if (!response?.ok) missing(url);
  if (response.headers.get("Content-Type") === "application/wasm") {
    return WebAssembly.compileStreaming(response);
  }
  return WebAssembly.compile(await response.arrayBuffer());
}

function missing(url) {
  throw new RunnerError(`cannot load the runner from ${url}: is the package complete?`);
}
