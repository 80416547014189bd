// The threads of a model beside its own: workers that wait in the module for work, and share its
// memory. They are started before the model is loaded, because from then on its thread computes and
// hears nothing.

import { RunnerError } from "./errors.mjs";
import { startHelper } from "./thread.mjs";

/** Of each thread. */
export const STACK_BYTES = 2 ** 19;

/**
 * @param {{module: WebAssembly.Module, threads: number, memory: WebAssembly.Memory}} build
 * @param {WebAssembly.Exports} exports of the model's own instance
 * @throws {RunnerError} a worker cannot be started
 */
export async function startTeam({ module, threads, memory }, exports) {
  const started = [];
  for (let worker = 0; worker < threads - 1; ++worker) {
    const stack = exports.thimble_web_allocate(STACK_BYTES);
    if (stack === 0) throw new RunnerError("there is no memory for threads: load with threads: 1");
    exports.thimble_web_announce(worker);
    started.push(startHelper({ module, memory, worker, stack: stack + STACK_BYTES }));
  }
  await Promise.all(started);
}
