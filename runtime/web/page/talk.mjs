// A conversation with a model, or the continuation of prompts if it has no template.

import { render } from "./markdown.mjs";

const NEAR_END = 60; // pixels above the end at which the log still follows the text

export class Talk {
  #model;
  #find;
  #onError;

  /**
   * @param {(id: string) => HTMLElement} find the page's elements
   * @param {(error: Error) => void} onError
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
    find("clear").addEventListener("click", () => this.#clear().catch(onError));
  }

  /** Begins with a loaded model. */
  begin(model) {
    this.#model = model;
    const chats = model.info.hasTemplate;
    this.#find("log").replaceChildren();
    this.#find("log").dataset.hint = chats
      ? "Ask something."
      : "This model has no chat template: it continues what you write.";
    this.#find("text-label").textContent = chats ? "Message" : "Text to continue";
    this.#find("text").placeholder = chats ? "Message" : "Text to continue";
    for (const element of document.querySelectorAll(".of-chat")) element.hidden = !chats;
    this.#find("speed").textContent = "";
    this.#answering(false);
    this.#find("text").focus();
  }

  /** Ends the conversation and frees the model. */
  end() {
    this.#model?.free();
    this.#model = null;
  }

  async #send() {
    const box = this.#find("text");
    const text = box.value;
    if (this.#find("send").hidden || text.trim() === "") return;
    const model = this.#model;
    box.value = "";
    this.#find("speed").textContent = "";
    this.#answering(true);
    const [mine, answer] = this.#show(text);
    let said = "";
    try {
      for await (const piece of this.#pieces(model, text)) {
        said += piece;
        this.#following(() => this.#fill(answer, said, piece));
      }
      if (said === "") answer.append("The model answered without text.");
      this.#following(() => this.#tell(model.stats));
    } catch (error) {
      if (model !== this.#model) return; // it was freed
      if (said === "") {
        box.value = text;
        for (const element of [mine, answer]) element.remove();
      }
      this.#onError(error);
    } finally {
      answer.classList.remove("answering");
      if (model === this.#model) this.#answering(false);
    }
  }

  #pieces(model, text) {
    const number = (id) => (this.#find(id).value === "" ? undefined : this.#find(id).valueAsNumber);
    const options = { temperature: number("temperature"), maxNewTokens: number("tokens") };
    if (!model.info.hasTemplate) return model.generate(text, options);
    return model.chat(text, { ...options, system: this.#find("system").value });
  }

  /** Shows what is there of an answer: of a chat as Markdown, else as it is. */
  #fill(answer, said, piece) {
    answer.dataset.said = said;
    if (answer.tagName === "DIV") answer.replaceChildren(render(said));
    else answer.append(piece);
  }

  /** Adds a message to the log; returns its element, and the one for the answer. */
  #show(text) {
    const chats = this.#model.info.hasTemplate;
    const [mine, answer] = Object.entries({ mine: "p", answer: "div" }).map(([name, tag]) => {
      const element = document.createElement(chats ? tag : "span");
      element.className = name;
      return element;
    });
    mine.textContent = text;
    answer.classList.add("answering");
    const log = this.#find("log");
    const into = chats ? log : log.appendChild(document.createElement("p"));
    into.append(mine, answer);
    log.scrollTop = log.scrollHeight;
    return [mine, answer];
  }

  #tell(stats) {
    const count = stats.generated_tokens;
    const speed = stats.decode_tokens_per_s;
    const parts = [`${count} ${count === 1 ? "token" : "tokens"}`];
    if (speed > 0) parts.unshift(`${speed.toFixed(speed < 10 ? 1 : 0)} tokens a second`);
    if (stats.stop_reason === "interrupted") parts.push("stopped");
    if (stats.stop_reason === "context_full") parts.push("the context is full");
    if (stats.dropped_turns > 0) parts.push("the oldest turns were dropped");
    this.#find("speed").textContent = parts.join(" · ");
  }

  async #clear() {
    this.#model.stop();
    if (!this.#find("send").hidden && this.#model.info.hasTemplate) await this.#model.resetChat();
    this.#find("log").replaceChildren();
    this.#find("speed").textContent = "";
    this.#find("text").focus();
  }

  #answering(now) {
    this.#find("send").hidden = now;
    this.#find("stop").hidden = !now;
    this.#find("clear").disabled = now;
    this.#find("log").ariaBusy = String(now); // read out when it is complete
  }

  /** Changes the log; it stays at its end, if that is where it is. */
  #following(change) {
    const log = this.#find("log");
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END;
    change();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}
