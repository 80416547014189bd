// What outlives a reload, in the browser's own storage.

const CHOICE = "thimble";
const EMPTY = { messages: [], system: "", sampling: {} };
const place = ({ model }) => `thimble: ${model}`;

/** Returns the conversation with a model, its system message and its sampling. */
export function kept(server) {
  try {
    return { ...EMPTY, ...JSON.parse(localStorage.getItem(place(server)) ?? "{}") };
  } catch {
    return EMPTY; // no storage, as in some private windows
  }
}

/** Stores the same; the oldest messages go where there is no room. */
export function keep(server, messages, system, sampling) {
  let turns = messages.map(({ role, content }) => ({ role, content }));
  for (;;) {
    try {
      const text = JSON.stringify({ messages: turns, system, sampling });
      return localStorage.setItem(place(server), text);
    } catch {
      if (turns.length === 0) return;
      turns = turns.slice(2);
    }
  }
}

/** Returns the model that was chosen last, if one was. */
export function keptChoice() {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return null;
  }
}

/** Stores the same. */
export function keepChoice(model) {
  try {
    localStorage.setItem(CHOICE, model);
  } catch {
    // no storage: the next page begins with the first model
  }
}
