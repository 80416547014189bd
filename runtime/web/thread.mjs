// Starts worker.mjs: as a web worker, or in node as a thread.

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
