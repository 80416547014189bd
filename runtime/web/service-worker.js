// Keeps the page for when there is no network. With one, files come from the server, so that a new
// version is there at the next visit.

const CACHE = "thimble";
const FILES = [
  "./", "icon.svg", "manifest.json",
  "builds.mjs", "errors.mjs", "helper.mjs", "index.mjs", "memory.mjs", "options.mjs", "runner.mjs", "source.mjs",
  "stop.mjs", "team.mjs", "thread.mjs", "wasi.mjs", "worker.mjs",
  "page/kept.mjs", "page/log.css", "page/log.mjs", "page/markdown.mjs", "page/models.mjs", "page/page.mjs",
  "page/store.mjs", "page/style.css", "page/talk.mjs",
  "vendor/marked.esm.js", "vendor/purify.min.js",
  "thimble.wasm", "thimble-relaxed.wasm", "thimble-threads.wasm",
];
const ADDRESSES = new Set(FILES.map((file) => new URL(file, location.href).href));

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
  self.skipWaiting();
});
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const address = event.request.url.replace(/[?#].*$/, "");
  if (event.request.method === "GET" && ADDRESSES.has(address)) {
    event.respondWith(answer(event.request, address));
  }
});

async function answer(request, address) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(address, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(address);
    if (kept === undefined) throw error;
    return kept;
  }
}
