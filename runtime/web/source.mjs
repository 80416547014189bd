// Where a model's bytes come from: a URL, a file, or memory.

import { RunnerError } from "./errors.mjs";

/**
 * @param {string | Blob | Uint8Array} source a string: a URL, or a path in node
 * @returns {Promise<{name: string, size: number, stream: ReadableStream<Uint8Array>}>}
 * @throws {RunnerError} it cannot be read
 */
export async function openSource(source) {
  if (typeof source === "string") return isUrl(source) ? openUrl(source) : openPath(source);
  if (source instanceof Blob) {
    return { name: source.name ?? "the model", size: source.size, stream: source.stream() };
  }
  const stream = new ReadableStream({
    start(controller) {
      if (source.length > 0) controller.enqueue(source);
      controller.close();
    },
  });
  return { name: "the model", size: source.length, stream };
}

/**
 * Reads a stream of `size` bytes; `take(chunk, at)` gets each piece and its place.
 * @throws {RunnerError} there are fewer bytes, or more
 */
export async function readAll({ name, size, stream }, take) {
  const reader = stream.getReader();
  let at = 0;
  try {
    for (;;) {
      const { done, value } = await read(reader, name, at);
      if (done && at === size) return;
      if (done || at + value.length > size) {
        throw new RunnerError(`${name} should have ${size} bytes, but has ${done ? at : "more"}`);
      }
      take(value, at);
      at += value.length;
    }
  } finally {
    reader.cancel().catch(() => {}); // of an error only: what was read has its own
  }
}

async function read(reader, name, at) {
  try {
    return await reader.read();
  } catch (error) {
    throw new RunnerError(`${name} cannot be read after ${at} bytes (${error.message}): try again`);
  }
}

const isUrl = (text) => /^[a-z][a-z0-9+.-]+:/i.test(text); // not a drive's letter

async function openUrl(url) {
  if (url.startsWith("file:") && typeof process === "object") return openPath(new URL(url));
  const response = await fetch(url).catch((error) => {
    const why = "no connection, or the server does not let other pages read it (CORS)";
    throw new RunnerError(`cannot load ${url}: ${why}: ${error.message}`);
  });
  if (!response.ok) {
    const status = `${response.status} ${response.statusText}`.trim();
    throw new RunnerError(`cannot load ${url}: the server answers ${status}`);
  }
  const name = nameOf(url) || "the model";
  const length = response.headers.get("Content-Length");
  if (length !== null && !response.headers.has("Content-Encoding")) {
    // Piped: node cancels a body that nobody reads yet when its response is collected.
    const stream = response.body.pipeThrough(new TransformStream());
    return { name, size: Number(length), stream };
  }
  const blob = await response.blob(); // its size is known when it is there
  return { name, size: blob.size, stream: blob.stream() };
}

function nameOf(url) {
  const part = new URL(url).pathname.split("/").at(-1);
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % that begins no code
  }
}

async function openPath(path) {
  const fs = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs");
  const { Readable } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:stream");
  const facts = fs.statSync(path, { throwIfNoEntry: false });
  if (!facts?.isFile()) throw new RunnerError(`cannot read ${path}: there is no such file`);
  const stream = Readable.toWeb(fs.createReadStream(path, { highWaterMark: 2 ** 20 }));
  return { name: String(path).split("/").at(-1), size: facts.size, stream };
}
