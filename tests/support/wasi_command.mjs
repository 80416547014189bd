// Runs a WebAssembly program as a command: node wasi_command.mjs PROGRAM [ARGUMENTS]; it sees the
// environment, and the files of this machine.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...rest] = process.argv.slice(2);
const wasi = new WASI({
  version: "preview1",
  args: [program, ...rest],
  env: process.env,
  preopens: { "/": "/" },
});
const module = await WebAssembly.compile(await readFile(program));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
