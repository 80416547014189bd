// The text of a sound while it arrives, by OpenAI's realtime interface.

const KEY = "openai-insecure-api-key."; // a browser sends a key as a protocol
const TEXT = "conversation.item.input_audio_transcription.";

/** Sends samples as they come; `told` is done when all of its text is told. */
export class LiveText {
  #socket;
  #rate;
  #tell;
  #unsent = []; // events, until the server is there
  #texts = []; // of the sound's ended parts
  #growing = "";
  #resolve;
  #reject;

  /**
   * @param {object} given
   * @param given.rate samples per second
   * @param given.tell is called with the text so far
   */
  constructor({ model, key, rate, tell }) {
    this.#rate = rate;
    this.#tell = tell;
    this.told = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.told.catch(() => {}); // which is shown at the end
    const address = new URL(`v1/realtime?model=${encodeURIComponent(model)}`, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    this.#socket = new WebSocket(address, ["realtime", ...(key ? [KEY + key] : [])]);
    this.#socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    this.#socket.onclose = () => this.#reject(new Error("the server ended the connection"));
  }

  /** @param {Int16Array} piece */
  send(piece) {
    const bytes = new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
    if (piece.length === 0) return;
    this.#say({ type: "input_audio_buffer.append", audio: btoa(String.fromCharCode(...bytes)) });
  }

  /** Ends the sound. */
  end() {
    this.#say({ type: "input_audio_buffer.commit" });
    this.#say({ type: "input_audio_buffer.clear" }); // what answers it comes behind all text
  }

  close() {
    this.#socket.close();
  }

  #say(event) {
    if (this.#unsent) this.#unsent.push(event);
    else this.#send(event);
  }

  /** Of a connection that has ended, the last pieces still come: nobody needs them. */
  #send(event) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }

  #take(event) {
    if (event.type === "error") return this.#fail(event.error.message);
    if (event.type === "session.created") {
      const format = { type: "audio/pcm", rate: this.#rate };
      const session = { type: "transcription", audio: { input: { format } } };
      const first = { type: "session.update", session };
      for (const one of [first, ...this.#unsent]) this.#send(one);
      this.#unsent = null;
    } else if (event.type === TEXT + "delta") {
      this.#growing += event.delta;
      this.#tell(this.#text());
    } else if (event.type === TEXT + "completed") {
      this.#growing = "";
      this.#texts.push(event.transcript);
      this.#tell(this.#text());
    } else if (event.type === "input_audio_buffer.cleared") {
      this.#resolve();
      this.close();
    }
  }

  #fail(message) {
    this.#reject(new Error(message));
    this.close();
  }

  #text() {
    return [...this.#texts, this.#growing].filter(Boolean).join(" ");
  }
}
