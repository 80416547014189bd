// Starts worker.mjs and helper.mjs: as web workers, or in node as threads.

import { RunnerError } from "./errors.mjs";

export const inNode = typeof Worker === "undefined";

/**
 * @param {(message: object) => void} onMessage
 * @param {(why: string) => void} onEnd it has failed
 * @returns {Promise<{postMessage: (message: object) => void, terminate: () => void}>}
 */
export async function startThread(onMessage, onEnd) {
  if (inNode) {
    const node = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads");
    const thread = new node.Worker(new URL("./worker.mjs", import.meta.url));
    thread.on("message", onMessage);
    thread.on("error", (error) => onEnd(error.message));
    return thread;
  }
  // Bundlers find the file by this expression.
  const worker = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
  worker.onmessage = (event) => onMessage(event.data);
  worker.onerror = (event) => onEnd(event.message ?? "its file cannot be loaded");
  return worker;
}

/**
 * Starts a helper of this thread, which ends with it.
 * @param {object} message for it
 * @returns {Promise<void>} it waits for work
 * @throws {RunnerError} it cannot be started
 */
export async function startHelper(message) {
  const fail = (reject, why) => reject(new RunnerError(`a thread cannot be started (${why})`));
  if (inNode) {
    const node = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads");
    const thread = new node.Worker(new URL("./helper.mjs", import.meta.url));
    return new Promise((resolve, reject) => {
      thread.once("message", () => {
        thread.unref(); // node ends without it
        resolve();
      });
      thread.once("error", (error) => fail(reject, error.message));
      thread.postMessage(message);
    });
  }
  const worker = new Worker(new URL("./helper.mjs", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onmessage = () => resolve();
    worker.onerror = (event) => fail(reject, event.message ?? "its file cannot be loaded");
    worker.postMessage(message);
  });
}
