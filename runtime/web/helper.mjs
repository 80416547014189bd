// A thread of a model beside its own, as team.mjs starts it: it waits in the module for work.

import { systemCalls } from "./wasi.mjs";

const inNode = typeof WorkerGlobalScope === "undefined";
const port = inNode
  ? (await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads")).parentPort
  : self;

port.onmessage = async ({ data: { module, memory, worker, stack } }) => {
  const thimble = { on_text: () => 0, on_token: () => {} }; // of the model's own thread
  const imports = { thimble, ...systemCalls(() => memory), env: { memory } };
  const { exports } = await WebAssembly.instantiate(module, imports);
  exports.__stack_pointer.value = stack;
  port.postMessage("ready");
  try {
    exports.thimble_web_serve(worker);
  } finally {
    exports.thimble_web_fail(); // or the others would wait for it
  }
};
