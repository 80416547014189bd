// How a page stops an answer while the worker computes and hears no messages: by memory that both
// share, or, where a page may not share any, by an address that stops to work.

/** @returns {{signal: Int32Array | string, stop: () => void}} the signal is for the worker */
export function makeStop() {
  if (typeof SharedArrayBuffer === "function") {
    const signal = new Int32Array(new SharedArrayBuffer(4));
    return { signal, stop: () => Atomics.store(signal, 0, 1) };
  }
  const signal = URL.createObjectURL(new Blob(["go on"]));
  return { signal, stop: () => URL.revokeObjectURL(signal) };
}

const PERIOD_MS = 50; // asking for an address takes about one

/** @returns {() => boolean} whether the other side has stopped it */
export function stopped(signal) {
  if (typeof signal !== "string") return () => Atomics.load(signal, 0) !== 0;
  let asked = performance.now();
  return () => {
    if (performance.now() - asked < PERIOD_MS) return false;
    asked = performance.now();
    try {
      const request = new XMLHttpRequest();
      request.open("GET", signal, false);
      request.send();
      return false;
    } catch {
      return true;
    }
  };
}
