// What the C library in thimble.wasm asks of its system (WASI, preview 1): clocks, and text on
// standard error. There are no files and no environment.

const SUCCESS = 0;
const BAD_DESCRIPTOR = 8;
const NOT_SUPPORTED = 52;
const STANDARD_ERROR = 2;

/**
 * @param {() => WebAssembly.Memory} memory of the module, once it is there
 * @returns the module's imports
 */
export function systemCalls(memory) {
  const view = () => new DataView(memory().buffer);
  const nanoseconds = (milliseconds) => BigInt(Math.round(milliseconds * 1e6));
  const nothing = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return SUCCESS;
  };
  const calls = {
    clock_time_get(id, _precision, to) {
      const now = id === 0 ? Date.now() : performance.now();
      view().setBigUint64(to, nanoseconds(now), true);
      return SUCCESS;
    },
    environ_sizes_get: nothing,
    environ_get: () => SUCCESS,
    args_sizes_get: nothing,
    args_get: () => SUCCESS,
    fd_write(descriptor, pieces, count, written) {
      if (descriptor !== STANDARD_ERROR) return BAD_DESCRIPTOR;
      let text = "";
      let size = 0;
      for (let i = 0; i < count; ++i) {
        const at = view().getUint32(pieces + 8 * i, true);
        const length = view().getUint32(pieces + 8 * i + 4, true);
        text += new TextDecoder().decode(new Uint8Array(memory().buffer, at, length).slice());
        size += length;
      }
      console.error(text.trimEnd());
      view().setUint32(written, size, true);
      return SUCCESS;
    },
    fd_prestat_get: () => BAD_DESCRIPTOR,
    proc_exit(code) {
      throw new Error(`the module ended with code ${code}`);
    },
  };
  // Of files, of which there are none.
  const missing = { get: (known, name) => known[name] ?? (() => NOT_SUPPORTED) };
  return { wasi_snapshot_preview1: new Proxy(calls, missing) };
}
