// Asks the server.

/** An error that the server tells, with its code if it has one. */
export class ServerError extends Error {
  constructor({ message, code }, status) {
    super(message);
    this.code = code ?? "";
    this.status = status;
  }
}

/** Returns the response to a body of JSON, or a form. */
export async function request(path, key, options = {}) {
  const isForm = options.body instanceof FormData; // whose type the browser tells
  const headers = isForm ? {} : { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(path, { headers, ...options });
  if (response.ok) return response;
  const told = (await response.json().catch(() => ({}))).error;
  const message = `the server answered with status ${response.status}`;
  throw new ServerError(told ?? { message }, response.status);
}

/** Returns the names of the models that answer or hear. */
export async function findModels(key) {
  const { data } = await (await request("v1/models", key)).json();
  const kinds = ["completion", "transcription"];
  const names = data.filter((model) => kinds.some((kind) => model.capabilities.includes(kind)));
  if (names.length === 0) throw new Error("no model of this server answers: they embed texts");
  return names.map((model) => model.id);
}

/** Returns what the page must know of a model: its name, whether it has a chat template, whether it
 * takes pictures, and what it tells if it hears. */
export async function findModel(model, key) {
  const props = await request(`props?model=${encodeURIComponent(model)}`, key);
  const { chat_template, modalities, transcription: hears } = await props.json();
  return { model, chats: chat_template !== "", sees: modalities.vision, hears };
}

/**
 * Answers messages; yields { text, thought, usage }, each with what is there of them.
 *
 * What a model without a chat template is given is all texts so far, which it continues.
 */
export async function* answer({ model, chats, messages, sampling, key, signal }) {
  const asked = chats ? { messages } : { prompt: messages.map(({ content }) => content).join("") };
  const body = { model, ...asked, ...sampling, stream: true };
  if (!chats) body.max_tokens ??= 256;
  const response = await request(chats ? "v1/chat/completions" : "v1/completions", key, {
    method: "POST",
    signal,
    body: JSON.stringify({ ...body, stream_options: { include_usage: true } }),
  });
  for await (const event of events(response.body)) {
    if (event.error) throw new ServerError(event.error);
    const [choice = {}] = event.choices;
    const { content, reasoning_content: thought } = choice.delta ?? { content: choice.text };
    yield { text: content ?? "", thought: thought ?? "", usage: event.usage };
  }
}

/** Yields the events of a stream. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data: ") ? line.slice("data: ".length) : "[DONE]";
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
