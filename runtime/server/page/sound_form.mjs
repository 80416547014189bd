// The form of a model that hears: sounds from files, or from the microphone.

import { Microphone, wavOf } from "./microphone.mjs";
import { clock } from "./transcripts.mjs";

const find = (id) => document.getElementById(id);

export class SoundForm {
  #events;
  #microphone = null; // that records
  #pieces = [];
  #samples = 0;
  #isOpening = false;
  #streams = false;
  #live = null; // what writes while it records

  /**
   * @param {object} events
   * @param events.hear takes files
   * @param events.listen begins a sound of a rate, whose samples come; returns what takes them
   * @param events.stop ends what is being heard
   * @param events.say tells a sentence
   */
  constructor(events) {
    this.#events = events;
    find("choose").addEventListener("click", () => find("sounds").click());
    find("sounds").addEventListener("change", () => {
      const files = [...find("sounds").files];
      find("sounds").value = ""; // so that the same file can be chosen again
      events.hear(files);
    });
    find("record").addEventListener("click", () => this.#record());
    find("stop").addEventListener("click", async () => {
      if (!this.#microphone) return events.stop();
      const { rate } = this.#microphone, live = this.#live;
      const pieces = await this.#end();
      events.say("");
      if (live) live.finish(wavOf(pieces, rate));
      else events.hear([wavOf(pieces, rate)]);
    });
  }

  /** Shows the form for a model that hears, with what it can tell. */
  offer(hears) {
    find("sound").hidden = !hears;
    this.#streams = Boolean(hears?.streams);
    find("timed").hidden = !hears?.timestamps.includes("segment");
    const languages = hears?.languages ?? [];
    find("language").hidden = languages.length === 0;
    const names = new Intl.DisplayNames(undefined, { type: "language" });
    const options = languages.map((code) => new Option(names.of(code), code));
    find("language").replaceChildren(new Option("Any language", ""), ...options);
  }

  /** How a sound is to be heard. */
  get options() {
    const has = (id) => !find(id).hidden;
    return {
      times: has("timed") && find("times").checked,
      language: has("language") ? find("language").value : "",
    };
  }

  get isRecording() {
    return this.#microphone !== null;
  }

  /** Whether there is something to stop, and nothing to begin. */
  set busy(busy) {
    find("choose").hidden = find("record").hidden = busy;
    find("stop").hidden = !busy;
  }

  /** Drops what is being recorded. */
  async cancel() {
    if (!this.#microphone) return;
    this.#live?.close();
    await this.#end();
  }

  async #record() {
    if (this.#isOpening || this.#microphone) return;
    this.#isOpening = true;
    this.#pieces = [];
    this.#samples = 0;
    try {
      this.#microphone = await Microphone.open((piece) => this.#take(piece));
      this.busy = true;
      this.#live = this.#streams ? this.#events.listen(this.#microphone.rate) : null;
      for (const piece of this.#pieces) this.#live?.send(piece);
    } catch (error) {
      this.#events.say(`Error: ${error.message}`);
    }
    this.#isOpening = false;
  }

  #take(piece) {
    this.#pieces.push(piece);
    this.#samples += piece.length;
    this.#live?.send(piece);
    if (!this.#microphone) return;
    this.#events.say(`Recording: ${clock(this.#samples / this.#microphone.rate)}`);
  }

  async #end() {
    const microphone = this.#microphone;
    this.#microphone = null;
    this.busy = false;
    await microphone.end();
    this.#live = null;
    return this.#pieces;
  }
}
