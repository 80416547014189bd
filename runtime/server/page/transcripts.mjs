// The text of a sound, of a model that hears.

import { events, request, ServerError } from "./answers.mjs";

/** Yields the text of a file, as it is written; with times, all at once. */
export async function* transcribe({ model, file, times, language, key, signal }) {
  const form = new FormData();
  form.append("model", model);
  form.append("file", file);
  if (language) form.append("language", language);
  form.append(...(times ? ["response_format", "verbose_json"] : ["stream", "true"]));
  const path = "v1/audio/transcriptions";
  const response = await request(path, key, { method: "POST", signal, body: form });
  if (times) {
    yield (await response.json()).segments.map(timed).join("\n");
    return;
  }
  for await (const event of events(response.body)) {
    if (event.error) throw new ServerError(event.error);
    if (event.delta) yield event.delta;
  }
}

const timed = ({ start, end, text }) => `${clock(start)} – ${clock(end)}  ${text.trim()}`;

/** Seconds as minutes, seconds and tenths. */
export function clock(seconds) {
  const tenths = Math.round(10 * seconds);
  return `${Math.floor(tenths / 600)}:${((tenths % 600) / 10).toFixed(1).padStart(4, "0")}`;
}

/** What plays a sound. */
export function player(file) {
  const audio = document.createElement("audio");
  audio.controls = true;
  audio.src = URL.createObjectURL(file);
  return audio;
}
