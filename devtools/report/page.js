"use strict";
// The flame graph, and what is said of a mark that is pointed at. All else of the page is there
// without this.
(() => {
  const trees = JSON.parse(document.getElementById("flames").textContent);
  const flame = document.getElementById("flame");
  const says = document.getElementById("flame-says");
  const apart = document.getElementById("flame-apart");
  const scopes = [...document.querySelectorAll("input[name=scope]")];
  let path = [];  // names from the root's child down to the frame that fills the width

  const scope = () => scopes.find((input) => input.checked).value;
  const time = (frame) => {
    const [prefill, decode] = frame.t;
    return { prefill, decode }[scope()] ?? prefill + decode;
  };
  const tree = () => (apart.checked ? trees.apart : trees.merged);

  function duration(nanoseconds) {
    for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
      if (nanoseconds >= size) return `${(nanoseconds / size).toPrecision(3)} ${unit}`;
    }
    return `${nanoseconds} ns`;
  }

  function say(frame, names) {
    const share = (100 * time(frame)) / Math.max(1, time(tree()));
    const line = frame.l ? `, ${frame.l}` : "";
    const where = names.join(" › ") || frame.n;
    says.textContent = `${where}: ${duration(time(frame))}, ${share.toFixed(1)}%${line}`;
  }

  function draw() {
    const rows = [];
    let longest = 1;
    const put = (frame, names, left, width, level) => {
      if (width < 0.15) return;
      (rows[level] ??= []).push({ frame, names, left, width });
      if (names.length > path.length) longest = Math.max(longest, own(frame));
      const inside = names.length < path.length ? [path[names.length]] : null;
      let at = left;
      for (const child of frame.c ?? []) {
        const on_path = inside === null || inside.includes(child.n);
        if (!on_path) continue;
        const share = inside ? width : (width * time(child)) / Math.max(1, time(frame));
        put(child, [...names, child.n], at, share, level + 1);
        at += share;
      }
    };
    put(tree(), [], 0, 100, 0);
    flame.replaceChildren(...rows.map((row) => {
      const line = document.createElement("div");
      line.append(...row.map((item) => button(item, longest)));
      return line;
    }));
  }

  const own = (frame) => (frame.c ? 0 : time(frame));

  function button({ frame, names, left, width }, longest) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = element.title = frame.n;
    element.style.left = `${left}%`;
    element.style.width = `${width}%`;
    element.style.setProperty("--s", Math.min(1, time(frame) / Math.max(1, time(tree()))));
    const idle = names.length === 1 && / overhead$|^no line$/.test(frame.n);
    element.classList.toggle("idle", idle);
    element.classList.toggle("thin", width < 2.5);
    element.setAttribute("aria-label", `${frame.n}, ${duration(time(frame))}`);
    element.addEventListener("click", () => {
      path = frame.c ? names : names.slice(0, -1);
      draw();
      say(frame, names);
    });
    element.addEventListener("pointerenter", () => say(frame, names));
    element.addEventListener("focus", () => say(frame, names));
    return element;
  }

  document.getElementById("flame-out").addEventListener("click", () => {
    path = [];
    draw();
    say(tree(), []);
  });
  for (const input of [...scopes, apart]) {
    input.addEventListener("change", () => {
      path = [];
      draw();
    });
  }

  function tell(event) {
    const mark = event.target.closest?.("[data-say]");
    const output = mark?.closest("section").querySelectorAll(".says");
    if (!output?.length) return;
    const after = [...output].find(
      (item) => mark.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (after) after.textContent = mark.dataset.say;
  }
  for (const kind of ["click", "pointerover", "focusin"]) document.addEventListener(kind, tell);

  function reveal() {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row?.tagName === "DETAILS") row.open = true;
  }
  addEventListener("hashchange", reveal);
  reveal();
  draw();
})();
