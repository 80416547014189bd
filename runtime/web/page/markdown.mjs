// What a model wrote, as elements: Markdown without anything that loads or runs.

import { marked } from "../vendor/marked.esm.js";
import "../vendor/purify.min.js";

const ALLOWED = {
  ALLOWED_TAGS: [
    ..."a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre strong".split(" "),
    ..."table tbody td th thead tr ul".split(" "),
  ],
  ALLOWED_ATTR: ["align", "href", "start", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};

/** Returns the elements of a text, as a DocumentFragment; its links open in another tab. */
export function render(text) {
  const html = marked.parse(text, { gfm: true, breaks: true, async: false });
  const fragment = globalThis.DOMPurify.sanitize(html, ALLOWED);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  return fragment;
}
