// A worker that writes a model to the private file system: under its name only when it is whole.

import { RunnerError } from "../errors.mjs";
import { checkMemory, inUnits } from "../memory.mjs";
import { openSource, readAll } from "../source.mjs";

self.onmessage = async ({ data: source }) => {
  try {
    self.postMessage({ name: await store(await openSource(source)) });
  } catch (error) {
    self.postMessage({ error: sentence(error) });
  }
};

async function store(file) {
  const { name, size } = file;
  checkMemory(name, size);
  const { usage = 0, quota = Infinity } = await navigator.storage.estimate();
  if (size > quota - usage) noRoom(name, size);
  const root = await navigator.storage.getDirectory();
  const incoming = await root.getFileHandle("incoming", { create: true });
  const access = await incoming.createSyncAccessHandle();
  try {
    access.truncate(0);
    await readAll(file, (chunk, at) => {
      if (access.write(chunk, { at }) !== chunk.length) noRoom(name, size);
      self.postMessage({ progress: [at + chunk.length, size] });
    });
    access.flush();
  } finally {
    access.close();
  }
  const models = await root.getDirectoryHandle("models", { create: true });
  await incoming.move(models, name);
  return name;
}

function noRoom(name, size) {
  throw new RunnerError(`there is no room for ${name} (${inUnits(size)}): delete a model first`);
}

function sentence(error) {
  if (error instanceof RunnerError) return error.message;
  if (error.name === "QuotaExceededError") return "there is no room for it: delete a model first";
  if (error.name === "NoModificationAllowedError") {
    return "another tab stores a model: wait until it is done";
  }
  return `it cannot be stored: ${error.message}`;
}
