// The thread in which a model computes: one call at a time, from index.mjs.

import { loadBuild } from "./builds.mjs";
import { RunnerError } from "./errors.mjs";
import { Runner } from "./runner.mjs";
import { openSource } from "./source.mjs";
import { stopped } from "./stop.mjs";

const inNode = typeof WorkerGlobalScope === "undefined";
const port = inNode
  ? (await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads")).parentPort
  : self;
let runner;

const calls = {
  async load({ source, verify, threads }) {
    const file = await openSource(source);
    const onProgress = (loaded, total) => port.postMessage({ progress: { loaded, total } });
    runner = await Runner.load(await loadBuild(threads), file, { verify, onProgress });
    return { name: file.name, size: file.size, hasTemplate: runner.hasTemplate };
  },
  generate({ text, options, signal }) {
    const stats = runner.generate(text, options, send(signal));
    return { stats, logprobs: runner.logprobs };
  },
  beginChat: ({ system, turns, gone }) => runner.beginChat(system, turns, gone),
  chat({ text, options, conversation, signal }) {
    const stats = runner.chat(text, options, send(signal), conversation);
    return { stats, logprobs: runner.logprobs };
  },
  resetChat: ({ conversation }) => runner.resetChat(conversation),
};

function send(signal) {
  const isStopped = stopped(signal);
  return (text) => {
    port.postMessage({ text });
    return !isStopped();
  };
}

port.onmessage = async ({ data: { call, ...rest } }) => {
  try {
    port.postMessage({ value: await calls[call](rest) });
  } catch (error) {
    const known = error instanceof RunnerError;
    port.postMessage({ error: known ? error.message : `${call} failed: ${error}` });
  }
};
