// The models that are kept in the browser's private file system.

import { RunnerError } from "../errors.mjs";

const FOLDER = "models";

async function folder() {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(FOLDER, { create: true });
}

/** The stored files, by name. What was not stored to its end is removed. */
export async function listModels() {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry("incoming").catch(() => {}); // none, or another tab is at it
  const files = [];
  for await (const handle of (await folder()).values()) files.push(await handle.getFile());
  return files.sort((a, b) => a.name.localeCompare(b.name));
}

export async function deleteModel(name) {
  await (await folder()).removeEntry(name);
}

/** Bytes that pages of this address use, and may use. */
export async function space() {
  const { usage = 0, quota = 0 } = await navigator.storage.estimate();
  return { usage, quota };
}

/**
 * Stores a model; one of the same name is replaced.
 * @param {File | string} source a file, or an absolute URL
 * @param {AbortSignal} signal ends it
 * @param {(loaded: number, total: number) => void} onProgress in bytes
 * @returns {Promise<File>}
 * @throws {RunnerError} it cannot be read, or there is no room
 */
export async function storeModel(source, signal, onProgress) {
  const to = await folder();
  navigator.storage.persist?.(); // asks that it is not thrown away when room is short
  const worker = new Worker(new URL("./store.mjs", import.meta.url), { type: "module" });
  try {
    const name = await new Promise((resolve, reject) => {
      signal.onabort = () => reject(new RunnerError("the model was not stored"));
      worker.onerror = (event) => reject(new RunnerError(`storing failed: ${event.message}`));
      worker.onmessage = ({ data }) => {
        if (data.progress) onProgress(...data.progress);
        else if (data.error) reject(new RunnerError(data.error));
        else resolve(data.name);
      };
      worker.postMessage(source);
    });
    return await (await to.getFileHandle(name)).getFile();
  } finally {
    worker.terminate();
  }
}
