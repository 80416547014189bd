// The pictures of the next message: chosen, pasted or dropped, sent as they are.

const TYPES = ["image/png", "image/jpeg", "image/webp"];

const read = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });

const shown = (url) => {
  const image = new Image();
  image.src = url;
  image.alt = "picture";
  return image;
};

/** A list of data URLs, shown in `row`, where a click removes one. */
export class Pictures {
  #row;
  #urls = [];

  constructor(row) {
    this.#row = row;
  }

  /** Adds files; those that are no pictures are an error, after the others are added. */
  async add(files) {
    const isPicture = ({ type }) => TYPES.includes(type);
    for (const file of files.filter(isPicture)) {
      this.#urls.push(await read(file));
      this.#show();
    }
    const other = files.find((file) => !isPicture(file));
    if (other) throw new Error(`${other.name} is not a picture: choose a PNG, JPEG or WebP file.`);
  }

  /** Returns all, and has none from then on. */
  take() {
    return this.put([]);
  }

  /** Has others instead; returns those before. */
  put(urls) {
    const before = this.#urls;
    this.#urls = [...urls];
    this.#show();
    return before;
  }

  #show() {
    const buttons = this.#urls.map((url, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Remove the picture";
      button.append(shown(url));
      button.addEventListener("click", () => {
        this.#urls.splice(index, 1);
        this.#show();
      });
      return button;
    });
    this.#row.replaceChildren(...buttons);
    this.#row.hidden = buttons.length === 0;
  }
}

/** Puts a message's pictures before its text. */
export function showPictures(element, urls) {
  element.prepend(...urls.map(shown));
}

/** A message in the interface's form. */
export function withPictures({ role, content, images = [] }) {
  if (images.length === 0) return { role, content };
  const parts = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return { role, content: [...parts, { type: "text", text: content }] };
}

/** The files that are pasted or dropped, if there are some. */
export const filesOf = (event) => [...(event.clipboardData ?? event.dataTransfer).files];
