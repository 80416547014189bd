// The microphone, at its own rate.

const REASONS = {
  NotAllowedError: "This page may not use the microphone: allow it in the browser.",
  NotFoundError: "There is no microphone.",
  NotReadableError: "The microphone cannot be used: another program may have it.",
};

/** Records one channel, from open() to end(). */
export class Microphone {
  #stream;
  #context;
  #node;

  /**
   * @param {(piece: Int16Array) => void} take is called with each piece, of a tenth of a second or so
   * @returns {Promise<Microphone>} one that records
   */
  static async open(take) {
    if (!navigator.mediaDevices) {
      throw new Error("Browsers give the microphone only to pages of this computer, or of https.");
    }
    const microphone = new Microphone();
    try {
      microphone.#stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const context = (microphone.#context = new AudioContext());
      await context.audioWorklet.addModule(new URL("samples.mjs", import.meta.url));
      const node = (microphone.#node = new AudioWorkletNode(context, "samples"));
      node.port.onmessage = ({ data }) => take(data);
      context.createMediaStreamSource(microphone.#stream).connect(node);
    } catch (error) {
      microphone.#close();
      throw REASONS[error.name] ? new Error(REASONS[error.name]) : error;
    }
    return microphone;
  }

  /** Samples per second. */
  get rate() {
    return this.#context.sampleRate;
  }

  /** Ends it, after its last piece was taken. */
  async end() {
    const take = this.#node.port.onmessage;
    await new Promise((resolve) => {
      this.#node.port.onmessage = (event) => (event.data === null ? resolve() : take(event));
      this.#node.port.postMessage("end");
    });
    this.#close();
  }

  #close() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#context?.close();
  }
}

/** Returns a WAV file of pieces of one channel. */
export function wavOf(pieces, rate) {
  const size = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const head = new DataView(new ArrayBuffer(44));
  const text = (at, word) => [...word].forEach((c, i) => head.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  head.setUint32(4, 36 + size, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true); // integers
  head.setUint16(22, 1, true); // channel
  head.setUint32(24, rate, true);
  head.setUint32(28, 2 * rate, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  text(36, "data");
  head.setUint32(40, size, true);
  return new File([head, ...pieces], "recording.wav", { type: "audio/wav" });
}
