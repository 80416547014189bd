// The page: a list of stored models, and a conversation with one of them.

import { load } from "../index.mjs";
import { inUnits } from "../memory.mjs";
import { forget } from "./kept.mjs";
import { deleteModel, listModels, space, storeModel } from "./models.mjs";
import { Talk } from "./talk.mjs";

const find = (id) => document.getElementById(id);
const canStore = await listModels().then(() => true, () => false); // not in some private windows
const talk = new Talk(find, fail);

function fail(error) {
  find("error").textContent = error?.message ?? "";
  find("error").hidden = error === null;
}

function working(text, done, total) {
  find("working").hidden = text === null;
  find("working-text").textContent = text ?? "";
  if (total > 0) find("progress").value = done / total;
  else find("progress").removeAttribute("value");
}

/** Does one thing at a time; an error is shown. */
let busy = false;
async function act(work) {
  if (busy) return;
  busy = true;
  find("models").inert = true;
  fail(null);
  try {
    await work();
  } catch (error) {
    fail(error);
  } finally {
    busy = false;
    find("models").inert = false;
    working(null);
    find("cancel").hidden = true;
  }
}

async function showModels() {
  if (!canStore) {
    find("space").textContent = "This browser does not let the page store models.";
    return;
  }
  const files = await listModels();
  find("list").replaceChildren(...files.map(item));
  const { usage, quota } = await space();
  find("space").textContent =
    files.length > 0 ? `Stored in this browser: ${inUnits(usage)} of at most ${inUnits(quota)}.` : "";
}

function item(file) {
  const row = document.createElement("li");
  const open = document.createElement("button");
  open.className = "open";
  const name = document.createElement("span");
  name.textContent = file.name;
  const size = document.createElement("small");
  size.textContent = inUnits(file.size);
  open.append(name, size);
  open.addEventListener("click", () => act(() => start(file)));
  const remove = document.createElement("button");
  remove.className = "quiet";
  remove.textContent = "Delete";
  remove.ariaLabel = `Delete ${file.name}`;
  remove.addEventListener("click", () =>
    act(async () => {
      if (!confirm(`Delete ${file.name}, and what was said with it?`)) return;
      await deleteModel(file.name);
      forget(file.name);
      await showModels();
    }),
  );
  row.append(open, remove);
  return row;
}

async function start(source, verify = false) {
  const title = `Loading ${source.name ?? source}`;
  working(title);
  const onProgress = ({ loaded, total }) => working(title, loaded, total);
  const model = await load(source, { verify, onProgress });
  find("title").textContent = model.info.name;
  find("models").hidden = true;
  find("talk").hidden = false;
  find("tools").hidden = false;
  talk.begin(model);
}

const add = (source) =>
  act(async () => {
    if (!canStore) return start(source, true);
    const name = source.name ?? source;
    working(`Storing ${name}`);
    const cancelled = new AbortController();
    find("cancel").hidden = false;
    find("cancel").onclick = () => cancelled.abort();
    const onProgress = (loaded, total) => {
      working(`Storing ${name}: ${inUnits(loaded)} of ${inUnits(total)}`, loaded, total);
    };
    const file = await storeModel(source, cancelled.signal, onProgress);
    find("cancel").hidden = true;
    await showModels();
    await start(file, true);
  });

find("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  event.target.value = ""; // the same one can be chosen again
  if (file) add(file);
});
find("from-url").addEventListener("submit", (event) => {
  event.preventDefault();
  add(find("url").value);
});
find("to-models").addEventListener("click", () => {
  talk.end();
  fail(null);
  find("title").textContent = "Thimble";
  find("talk").hidden = true;
  find("tools").hidden = true;
  find("models").hidden = false;
  act(showModels);
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dragged");
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dragged");
});
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dragged");
  const [file] = event.dataTransfer.files;
  if (file && !find("models").hidden) add(file);
});

// The page works without a network from now on.
navigator.serviceWorker?.register(new URL("../service-worker.js", import.meta.url)).catch(() => {});

// "?model=URL" loads that model: so `python -m runtime web model.pte` opens the page.
const wanted = new URLSearchParams(location.search).get("model");
if (wanted !== null) history.replaceState(null, "", location.pathname);
await act(showModels);
if (wanted !== null) add(new URL(wanted, location.href).href);
