// What is chosen, search, keys, and the lists below.

const STATE = { layer: null, neuron: null, focus: null, channel: null, way: "largest", feature: null };
const SEARCH = document.getElementById("search"), FOUND = document.getElementById("found"), KEYS = document.getElementById("keys");
const HELP = [
  ["/", "find a layer, tensor or axis"], ["↑ ↓", "to the layer before and after"], ["→ ←", "unfold and fold a module"],
  ["Enter", "show what is chosen"], ["[ ]", "the neuron before and after"], ["Esc", "close"], ["?", "these keys"],
];

function choose(item) {
  STATE.focus = item;
  if (item.children) {
    item.open = !item.open;
    drawGraph();
    item.row?.focus();
  } else show(item.layer);
}

function show(layer, neuron = null) {
  Object.assign(STATE, { layer, neuron });
  document.body.classList.toggle("open", layer !== null);
  drawDetail();
  markChosen();
  DETAIL.scrollTop = 0;
}

function step(by) {
  const rows = visible(), at = rows.indexOf(STATE.focus);
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  STATE.focus = next;
  if (next.layer) show(next.layer);
  markChosen();
  next.row.focus();
}

function fold(open) {
  const item = STATE.focus;
  if (!item) return;
  if (item.children && item.open !== open) choose(item);
  else if (!open && item.parent && item.parent !== ROOT) {
    STATE.focus = item.parent;
    markChosen();
    item.parent.row?.focus();
  }
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (name) => words.every((word) => name.toLowerCase().includes(word));
  if (!words.length) return [];
  const hits = LAYERS.filter((layer) => fits(layer.name)).map((layer) => [layer.name, layer]);
  for (const layer of LAYERS) for (const name of layer.tensors) if (fits(name)) hits.push([name, layer]);
  for (const block of BLOCKS) for (const [name] of block.tensors) if (fits(name)) hits.push([name, LAYERS[block.target]]);
  for (const axis of DATA.axes) if (fits(axis.name)) hits.push([`axis ${axis.name}`, LAYERS.find((layer) => layer.name === axis.places[0])]);
  const seen = new Set();
  return hits.filter(([name, layer]) => layer && !seen.has(name) && seen.add(name)).slice(0, 30);
}

function goTo(layer) {
  FOUND.hidden = true;
  reveal(layer);
  STATE.focus = visible().find((item) => item.layer === layer);
  show(layer);
  STATE.focus?.row.scrollIntoView({ block: "center" });
}

SEARCH.addEventListener("input", () => {
  const hits = find(SEARCH.value);
  FOUND.replaceChildren(...hits.map(([name, layer]) => make("li", null, make("button", { type: "button", class: "link", click: () => goTo(layer) }, name))));
  if (SEARCH.value.trim() && !hits.length) FOUND.append(make("li", { class: "about" }, "nothing has this name"));
  FOUND.hidden = !SEARCH.value.trim();
});
SEARCH.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    const [hit] = find(SEARCH.value);
    if (hit) goTo(hit[1]);
  }
});

function moveNeuron(by) {
  const { layer, neuron } = STATE;
  if (layer) show(layer, (((neuron ?? -by) + by) % layer.neurons + layer.neurons) % layer.neurons);
}

const ACTIONS = {
  "/": () => SEARCH.focus(), ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => fold(true), ArrowLeft: () => fold(false),
  "]": () => moveNeuron(1), "[": () => moveNeuron(-1), "?": () => { KEYS.hidden = !KEYS.hidden; },
  Enter: () => STATE.focus && choose(STATE.focus),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (!KEYS.hidden || !FOUND.hidden) KEYS.hidden = FOUND.hidden = true;
    else show(STATE.layer, null);
    if (document.activeElement === SEARCH) SEARCH.blur();
    return;
  }
  const tag = event.target.tagName;
  if (["INPUT", "SELECT", "TEXTAREA", "SUMMARY"].includes(tag) || (tag === "BUTTON" && event.key === "Enter")) return;
  const action = ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

function drawFindings() {
  const place = document.getElementById("findings");
  if (!DATA.marks.length) return place.remove();
  for (const [key, label, meaning] of DATA.marks) {
    const own = DATA.findings.filter(([mark]) => mark === key), count = DATA.counts[key];
    const rows = own.map(([, axis, list, text]) => make("tr", null, make("td", null, findingLink(axis, list)), make("td", null, text)));
    const listed = own.reduce((sum, [, , list]) => sum + list.length, 0);
    const table = make("div", { class: "wide" }, make("table", null, make("tbody", null, ...rows)));
    const more = listed < count ? make("p", { class: "about" }, `${listed.toLocaleString("en")} of ${count.toLocaleString("en")} are listed; all are marked in their layers.`) : null;
    place.append(make("details", { open: count > 0 && own.length <= 20, "data-mark": key }, make("summary", null, badge(key), ` ${count.toLocaleString("en")} ${count === 1 ? "neuron" : "neurons"}`), make("p", { class: "about" }, meaning), count ? table : null, more));
  }
}

function findingLink(axis, list) {
  const layer = LAYERS.find((own) => own.axes.length === 1 && own.axes[0] === axis) ?? LAYERS.find((own) => own.axes.includes(axis));
  const single = layer?.axes.length === 1;
  const text = `${axis}: ${list.slice(0, 12).join(", ")}${list.length > 12 ? " …" : ""}`;
  return layer ? make("button", { type: "button", class: "link", click: () => { goTo(layer); show(layer, single ? list[0] : null); scrollTo(0, 0); } }, text) : text;
}

function drawAxes() {
  const head = make("tr", null, ...["axis", "neurons", "group", "stands at"].map((name) => make("th", null, name)));
  const rows = DATA.axes.map((axis) => {
    const places = axis.places.slice(0, 8).flatMap((name, i) => [i ? ", " : null, layerLink(LAYERS.find((layer) => layer.name === name))]);
    const more = axis.places.length > 8 ? `, and ${axis.places.length - 8} more` : null;
    return make("tr", null, make("td", null, axis.name), make("td", null, axis.copies > 1 ? `${axis.copies} × ${axis.size}` : String(axis.size)), make("td", null, axis.group), make("td", null, ...places, more));
  });
  const details = make("details", { open: DATA.axes.length <= 20 }, make("summary", null, `${DATA.axes.length} axes`), make("div", { class: "wide" }, make("table", null, make("thead", null, head), make("tbody", null, ...rows))));
  document.getElementById("axes").append(make("p", { class: "about" }, "Neurons of one axis are in the same order wherever it stands: a residual connection ties them. S_n: their order can be changed; sign and scale: they can be multiplied; GL_n: they can be mixed; none of it changes the function."), details);
}

document.getElementById("help").addEventListener("click", () => { KEYS.hidden = !KEYS.hidden; });
KEYS.append(make("dl", null, ...HELP.map(([key, what]) => make("div", null, make("dt", null, make("kbd", null, key)), make("dd", null, what)))));
addEventListener("resize", () => requestAnimationFrame(drawLines));
buildTree();
STATE.focus = visible()[0] ?? null;
drawGraph();
drawDetail();
drawFindings();
drawAxes();
document.documentElement.dataset.ready = "yes";
