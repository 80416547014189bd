// What the microphone's thread does: samples of its first channel, in pieces of 16 bits.

const SIZE = 4096; // samples of a piece

class Samples extends AudioWorkletProcessor {
  #piece = new Int16Array(SIZE);
  #count = 0;
  #ended = false;

  constructor() {
    super();
    this.port.onmessage = () => {
      this.#ended = true;
      this.#send();
      this.port.postMessage(null);
    };
  }

  process([[samples = []]]) {
    for (const sample of samples) {
      this.#piece[this.#count++] = Math.max(-32768, Math.min(32767, Math.round(32768 * sample)));
      if (this.#count === SIZE) this.#send();
    }
    return !this.#ended;
  }

  #send() {
    this.port.postMessage(this.#piece.slice(0, this.#count));
    this.#count = 0;
  }
}

registerProcessor("samples", Samples);
