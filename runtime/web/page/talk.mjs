// A conversation with a model, or the continuation of prompts if it has no template. The page keeps
// it: the model is given what was said before with each message, and computes what is new of it.

import { keep, kept } from "./kept.mjs";
import { following, prepare, showNothing } from "./log.mjs";
import { render } from "./markdown.mjs";

const SETTINGS = ["temperature", "tokens", "system"];

export class Talk {
  #model;
  #find;
  #onError;
  #messages = []; // each with its element; while the model answers, the last one is the answer
  #lost = ""; // what the browser does not keep

  /**
   * @param {(id: string) => HTMLElement} find the page's elements
   * @param {(error: Error | null) => void} onError
   */
  constructor(find, onError) {
    this.#find = find;
    this.#onError = onError;
    find("say").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    find("text").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    find("stop").addEventListener("click", () => this.#model.stop());
    find("clear").addEventListener("click", () => this.#clear());
    addEventListener("pagehide", () => this.#store());
  }

  /** Begins with a loaded model, where the last page with it ended. */
  begin(model) {
    this.#model = model;
    const chats = model.info.hasTemplate;
    const before = kept(model.info.name);
    for (const id of SETTINGS) {
      this.#find(id).value = before.settings[id] ?? this.#find(id).defaultValue;
    }
    this.#empty();
    prepare(this.#find("log"), chats);
    this.#find("text-label").textContent = chats ? "Message" : "Text to continue";
    this.#find("text").placeholder = chats ? "Message" : "Text to continue";
    for (const element of document.querySelectorAll(".of-chat")) element.hidden = !chats;
    for (let i = 0; i + 1 < before.messages.length; i += 2) {
      const [question, answer] = before.messages.slice(i, i + 2);
      this.#fill(this.#show(question.content)[1], answer.content);
      if (answer.content === "") showNothing(this.#messages.at(-1).element);
    }
    this.#find("log").scrollTop = this.#find("log").scrollHeight;
    this.#answering(false);
    this.#find("text").focus();
  }

  /** Ends the conversation, which the browser keeps, and frees the model. */
  end() {
    this.#store();
    this.#model?.free();
    this.#model = null;
  }

  async #send() {
    const box = this.#find("text");
    const text = box.value;
    if (this.#find("send").hidden || text.trim() === "") return;
    const model = this.#model;
    const read = this.#messages.filter(({ element }) => !element.classList.contains("dropped"));
    box.value = "";
    this.#find("speed").textContent = "";
    this.#onError(null);
    this.#answering(true);
    const [question, answer] = this.#show(text);
    answer.element.classList.add("answering");
    try {
      for await (const piece of await this.#pieces(model, read, text)) {
        following(this.#find("log"), () => this.#fill(answer, piece));
      }
      if (answer.content === "") showNothing(answer.element);
      const dropped = read.slice(0, 2 * (model.stats.dropped_turns ?? 0));
      for (const { element } of dropped) element.classList.add("dropped");
      following(this.#find("log"), () => this.#tell(model.stats));
    } catch (error) {
      if (model !== this.#model) return; // it was freed
      if (answer.content === "") {
        box.value ||= text;
        this.#messages.splice(-2);
        for (const { element } of [question, answer]) element.closest("#log > *")?.remove();
      }
      this.#onError(error);
    } finally {
      answer.element.classList.remove("answering");
      if (model === this.#model) {
        this.#answering(false);
        this.#store();
      }
    }
  }

  async #pieces(model, read, text) {
    const number = (id) => (this.#find(id).value === "" ? undefined : this.#find(id).valueAsNumber);
    const options = { temperature: number("temperature"), maxNewTokens: number("tokens") };
    if (!model.info.hasTemplate) return model.generate(text, options);
    const chat = await model.newChat({ system: this.#find("system").value, messages: read });
    return chat.say(text, options);
  }

  /** Adds a piece to an answer: of a chat it is Markdown, else a text as it is. */
  #fill(answer, piece) {
    answer.content += piece;
    answer.element.dataset.said = answer.content;
    if (answer.element.tagName === "DIV") answer.element.replaceChildren(render(answer.content));
    else answer.element.append(piece);
  }

  /** Adds a message, and an empty answer; returns both. */
  #show(text) {
    const chats = this.#model.info.hasTemplate;
    const [mine, answer] = Object.entries({ mine: "p", "answer markdown": "div" }).map(([name, tag]) => {
      const element = document.createElement(chats ? tag : "span");
      element.className = name;
      return element;
    });
    mine.textContent = text;
    const log = this.#find("log");
    const into = chats ? log : log.appendChild(document.createElement("p"));
    into.append(mine, answer);
    log.scrollTop = log.scrollHeight;
    const both = [
      { role: "user", content: text, element: mine },
      { role: "assistant", content: "", element: answer },
    ];
    this.#messages.push(...both);
    return both;
  }

  #tell(stats) {
    const count = stats.generated_tokens;
    const speed = stats.decode_tokens_per_s;
    const parts = [`${count} ${count === 1 ? "token" : "tokens"}`];
    if (speed > 0) parts.unshift(`${speed.toFixed(speed < 10 ? 1 : 0)} tokens a second`);
    if (stats.stop_reason === "interrupted") parts.push("stopped");
    if (stats.stop_reason === "context_full") parts.push("the context is full");
    if (this.#messages.some(({ element }) => element.classList.contains("dropped"))) {
      parts.push("the grey messages no longer fit: the model does not read them");
    }
    this.#find("speed").textContent = parts.join(" · ");
  }

  /** Keeps the conversation in the browser; says once what it does not keep. */
  #store() {
    if (!this.#model) return;
    const settings = Object.fromEntries(SETTINGS.map((id) => [id, this.#find(id).value]));
    const before = this.#lost;
    this.#lost = keep(this.#model.info.name, { messages: this.#messages, settings });
    if (this.#lost && this.#lost !== before) this.#find("speed").append(` ${this.#lost}`);
  }

  #empty() {
    this.#messages = [];
    this.#find("log").replaceChildren();
    this.#find("speed").textContent = "";
  }

  #clear() {
    this.#empty();
    this.#onError(null);
    this.#store();
    this.#find("text").focus();
  }

  #answering(now) {
    this.#find("send").hidden = now;
    this.#find("stop").hidden = !now;
    this.#find("clear").disabled = now;
    this.#find("log").ariaBusy = String(now); // read out when it is complete
  }
}
