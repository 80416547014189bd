// What outlives a reload, in the browser's own storage: of each model a conversation with its
// settings.

const CHOICE = "thimble";
const MOST = 500_000; // characters of a model: browsers have about 5 million for all of a page
const place = (model) => `thimble: ${model}`;
const isMessage = (one) => typeof one?.role === "string" && typeof one.content === "string";

/** Returns the conversation with a model, { messages, settings }: of each message role and content. */
export function kept(model) {
  let found = null;
  try {
    found = JSON.parse(localStorage.getItem(place(model)));
  } catch {
    // no storage, as in some private windows
  }
  const messages = Array.isArray(found?.messages) ? found.messages : [];
  return { messages: messages.every(isMessage) ? messages : [], settings: found?.settings ?? {} };
}

/**
 * Stores the same; the oldest turns go where there is no room.
 * @returns {string} a sentence on what ends with the page; "" if nothing does
 */
export function keep(model, { messages, settings }) {
  const turns = messages.map(({ role, content }) => ({ role, content }));
  const fewer = (first) => first + 2 * Math.max(1, Math.ceil((turns.length - first) / 16));
  for (let first = 0; first <= turns.length; first = fewer(first)) {
    const text = JSON.stringify({ messages: turns.slice(first), settings });
    if (text.length > MOST && first < turns.length) continue;
    try {
      localStorage.setItem(place(model), text);
    } catch {
      continue;
    }
    return first === 0 ? "" : "The talk is too long to keep: its oldest messages end with this page.";
  }
  return turns.length === 0 ? "" : "This browser keeps nothing here: the talk ends with this page.";
}

/** Removes the conversation with a model. */
export function forget(model) {
  try {
    localStorage.removeItem(place(model));
  } catch {
    // no storage, so nothing is there
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
