// The log of a conversation.

const NEAR_END = 60; // pixels above the end at which it still follows the text
const observed = new WeakSet();
const isAtEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END;

/** Says what an empty log is for; keeps a log at its end, if that is where it is, when it shrinks. */
export function prepare(log, chats) {
  log.dataset.hint = chats
    ? "Ask something."
    : "This model has no chat template: it continues what you write.";
  if (observed.has(log)) return;
  observed.add(log);
  let atEnd = true, height = log.clientHeight;
  log.addEventListener("scroll", () => {
    if (log.clientHeight === height) atEnd = isAtEnd(log); // else it is told of its size later
  });
  new ResizeObserver(() => {
    height = log.clientHeight;
    if (atEnd) log.scrollTop = log.scrollHeight;
  }).observe(log);
}

/** Says that an answer is without text, in its element. */
export function showNothing(element) {
  element.classList.add("nothing");
  element.append("The answer has no text.");
}

/** Changes the log; it stays at its end, if that is where it is. */
export function following(log, change) {
  const atEnd = isAtEnd(log);
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}
