// The page: a conversation with the server's model, or the texts of sounds, which outlive a reload.

import { keep, keepChoice, kept, keptChoice } from "../web/page/kept.mjs";
import { following, prepare, showNothing } from "../web/page/log.mjs";
import { render } from "../web/page/markdown.mjs";
import { answer, findModel, findModels } from "./answers.mjs";
import { LiveText } from "./live.mjs";
import { Pictures, filesOf, showPictures, withPictures } from "./pictures.mjs";
import { SoundForm } from "./sound_form.mjs";
import { player, transcribe } from "./transcripts.mjs";

const find = (id) => document.getElementById(id);
const NUMBERS = ["temperature", "top_p", "max_tokens"];
let names = null; // of the models that answer
let server = null; // the chosen model's name, and whether it chats
let messages = []; // each with its element
let running = null; // what ends the answer, which is then the last message
const pictures = new Pictures(find("pictures")); // of the next message
const sounds = new SoundForm({ hear, listen, say, stop: () => running?.abort() });
let lost = ""; // what the browser does not keep

function say(text) {
  find("status").textContent = text;
}

function settings() {
  const given = NUMBERS.filter((name) => find(name).value !== "");
  return Object.fromEntries(given.map((name) => [name, Number(find(name).value)]));
}

/** Stores the conversation; says once what the browser does not keep of it. */
function store() {
  if (server === null) return;
  const ids = ["system", ...NUMBERS];
  const values = Object.fromEntries(ids.map((id) => [id, find(id).value]));
  const before = lost;
  lost = keep(server.model, { messages, settings: values });
  if (!lost && messages.some(({ images = [] }) => images.length > 0)) {
    lost = "The pictures end with this page.";
  }
  if (lost && lost !== before) say(`${find("status").textContent} ${lost}`);
}

function show(role, content, images = []) {
  const element = document.createElement("div");
  element.className = `message ${role}`;
  if (role === "assistant" && !server?.hears) fill(element, content, "");
  else element.textContent = content;
  if (server?.hears) element.classList.add("heard");
  showPictures(element, images);
  find("log").append(element);
  element.scrollIntoView({ block: "end" });
  return { role, content, images, element };
}

/** Shows an answer as it is by now. */
function fill(element, text, thought) {
  const parts = [];
  if (thought) {
    const details = document.createElement("details");
    details.open = element.querySelector("details")?.open ?? false;
    const summary = document.createElement("summary");
    summary.textContent = "Reasoning";
    const thoughts = document.createElement("div");
    thoughts.className = "thought";
    thoughts.textContent = thought;
    details.append(summary, thoughts);
    parts.push(details);
  }
  const shown = document.createElement("div");
  shown.className = "markdown";
  shown.append(render(text));
  element.replaceChildren(...parts, shown);
}

async function connect() {
  const key = find("key").value;
  try {
    if (names === null) offer(await findModels(key));
    server ??= await findModel(find("models").value, key);
  } catch (error) {
    if (error.status === 401) find("key").hidden = false;
    throw error;
  }
  find("model").textContent = server.model;
  prepare(find("log"), server.chats);
  if (server.hears) find("log").dataset.hint = "Choose a sound, drop one here, or record one.";
  sounds.offer(server.hears);
  find("form").hidden = find("settings").hidden = Boolean(server.hears);
  find("add").hidden = !(server.sees && server.chats);
  find("text").placeholder = server.chats ? "Message" : "A text to continue";
  document.title = `${server.model} · Thimble`;
}

/** Lets choose among several models. */
function offer(found) {
  names = found;
  find("models").replaceChildren(...names.map((name) => new Option(name)));
  const choice = keptChoice();
  if (names.includes(choice)) find("models").value = choice;
  find("models").hidden = names.length < 2;
  find("model").hidden = names.length > 1;
}

/** The messages that the model reads: neither dropped ones nor the answer at work. */
function read() {
  const all = running ? messages.slice(0, -1) : messages;
  return all.filter(({ element }) => !element.classList.contains("dropped"));
}

/** What the model is given: the system message, and the messages that it reads. */
function asked() {
  const system = server.chats && find("system").value;
  return [
    ...(system ? [{ role: "system", content: system }] : []),
    ...read().map(withPictures),
  ];
}

/** Leaves out the oldest turn but the last; returns whether there was one. */
function drop() {
  const turns = read();
  if (turns.length < 2) return false;
  for (const turn of turns.slice(0, 2)) {
    if (turn !== turns.at(-1)) turn.element.classList.add("dropped");
  }
  say("The oldest messages no longer fit: the model does not read them.");
  return true;
}

async function reply() {
  const control = (running = new AbortController());
  find("send").textContent = "Stop";
  const question = messages.at(-1);
  const answered = show("assistant", "");
  messages.push(answered);
  let thought = "", usage = null, first = 0, problem = null;
  const began = performance.now();
  for (let again = true; again; ) {
    again = false;
    try {
      await connect();
      const given = { ...server, messages: asked(), sampling: settings(), key: find("key").value };
      for await (const more of answer({ ...given, signal: control.signal })) {
        usage = more.usage ?? usage;
        if (!more.text && !more.thought) continue;
        first ||= performance.now();
        answered.content += more.text;
        thought += more.thought;
        following(find("log"), () => fill(answered.element, answered.content, thought));
      }
    } catch (error) {
      if (error.code === "context_length_exceeded" && !answered.content) again = drop();
      problem = again || error.name === "AbortError" ? null : error;
    }
  }
  if (running !== control) return answered.element.remove(); // cleared
  running = null;
  find("send").textContent = "Send";
  if (problem && !answered.content) {
    for (const { element } of messages.splice(-2)) element.remove();
    const later = find("text").value; // what was written and added while it was asked
    find("text").value = later ? `${question.content}\n${later}` : question.content;
    pictures.put([...question.images, ...pictures.take()]);
  } else if (!answered.content) {
    showNothing(answered.element);
  }
  if (problem) say(`Error: ${problem.message}`);
  else if (usage && first) tell(usage, first - began, performance.now() - first);
  store();
}

/** Writes the texts of sounds, one after the other. */
async function hear(files) {
  for (const file of files) if (!(await hearOne(file))) return;
}

/** Returns whether nothing ended the work. */
async function hearOne(file) {
  if (running || sounds.isRecording) {
    say("One sound at a time: wait, or stop it.");
    return false;
  }
  const control = (running = new AbortController());
  sounds.busy = true;
  say("");
  const { sound, text, write } = showSound(file.name);
  sound.element.append(player(file));
  const asked = { ...sounds.options, model: server.model, file, key: find("key").value };
  let problem = null;
  try {
    const parts = transcribe({ ...asked, signal: control.signal });
    for await (const more of parts) write(text.content + more);
  } catch (error) {
    problem = error;
  }
  if (running !== control) return false; // cleared
  running = null;
  sounds.busy = false;
  return settle(text, problem);
}

/** Writes the text of a sound whose samples come, until it is finished. */
function listen(rate) {
  const { sound, text, write } = showSound("recording.wav");
  const live = new LiveText({ model: server.model, key: find("key").value, rate, tell: write });
  return {
    send: (piece) => live.send(piece),
    close: () => live.close(),
    async finish(file) {
      sound.element.append(player(file));
      live.end();
      const problem = await live.told.then(() => null, (error) => error);
      if (messages.includes(text)) settle(text, problem); // else it was cleared
    },
  };
}

function showSound(name) {
  const sound = show("user", name), text = show("assistant", "");
  messages.push(sound, text);
  const write = (now) =>
    following(find("log"), () => (text.element.textContent = text.content = now));
  return { sound, text, write };
}

/** Ends the text of the last sound; returns whether there was no problem. */
function settle(text, problem) {
  if (problem && !text.content) { // the sound stays, to be heard
    messages = messages.slice(0, -2);
    text.element.remove();
  } else if (!text.content) {
    text.element.classList.add("nothing");
    text.element.append("The sound has no text.");
  }
  if (problem && problem.name !== "AbortError") say(`Error: ${problem.message}`);
  store();
  return problem === null;
}

function tell(usage, waited, spent) {
  const { prompt_tokens: prompt, completion_tokens: count } = usage;
  const rate = count > 1 ? `, then ${(((count - 1) / spent) * 1000).toFixed(1)} a second` : "";
  const dropped = messages.some(({ element }) => element.classList.contains("dropped"));
  const note = dropped ? " The grey messages no longer fit: the model does not read them." : "";
  say(`${prompt} + ${count} tokens, first after ${(waited / 1000).toFixed(2)} s${rate}.${note}`);
}

async function start() {
  try {
    await connect();
    say("");
    if (messages.length === 0) restore();
  } catch (error) {
    say(`Error: ${error.message}`);
  }
}

function restore() {
  const before = kept(server.model);
  for (const id of ["system", ...NUMBERS]) find(id).value = before.settings[id] ?? "";
  for (const { role, content } of before.messages) {
    messages.push(show(role, content));
    if (!content) showNothing(messages.at(-1).element);
  }
  find("log").scrollTop = find("log").scrollHeight;
}

find("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = find("text").value;
  if (!text.trim()) return say("Write something first.");
  for (const name of NUMBERS) if (!find(name).reportValidity()) return;
  find("text").value = "";
  say("");
  messages.push(show("user", text, pictures.take()));
  reply();
});
async function add(files) {
  say(""); // before it waits: what is said meanwhile stays
  try {
    await pictures.add(files);
  } catch (error) {
    say(`Error: ${error.message}`);
  }
}

find("add").addEventListener("click", () => find("files").click());
find("files").addEventListener("change", async () => {
  await add([...find("files").files]);
  find("files").value = ""; // so that the same file can be chosen again
});
for (const [kind, place] of [["paste", find("text")], ["drop", document], ["dragover", document]]) {
  place.addEventListener(kind, (event) => {
    const files = filesOf(event);
    if (server?.hears && kind.startsWith("drag")) return event.preventDefault();
    if (server?.hears && files.length > 0) {
      event.preventDefault();
      return hear(files);
    }
    if (find("add").hidden || (files.length === 0 && kind !== "dragover")) return;
    // What has text too, such as cells of a table, is also pasted as text.
    if (!event.clipboardData?.types.includes("text/plain")) event.preventDefault();
    if (files.length > 0) add(files);
  });
}
find("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) find("form").requestSubmit();
});
/** Ends what is being answered, and removes the conversation from the page. */
function empty() {
  running?.abort();
  running = null;
  sounds.cancel();
  sounds.busy = false;
  find("send").textContent = "Send";
  messages = [];
  pictures.take();
  find("log").replaceChildren();
  say("");
}

find("models").addEventListener("change", () => {
  store();
  empty();
  server = null;
  keepChoice(find("models").value);
  start();
});
find("clear").addEventListener("click", () => {
  empty();
  store();
});
addEventListener("pagehide", store);
find("key").addEventListener("change", start);
start();
