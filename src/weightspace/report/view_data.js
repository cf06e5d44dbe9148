// The network: numbers decoded when they are first asked for, and who is where.

const DATA = JSON.parse(document.getElementById("data").textContent);
const LAYERS = DATA.layers, BLOCKS = DATA.blocks;
const AXES = new Map(DATA.axes.map((axis) => [axis.name, axis]));
const MARKS = new Map(DATA.marks.map(([key, label, meaning, colour]) => [key, { key, label, meaning, colour }]));
const NOTHING = new Set();

LAYERS.forEach((layer, index) => Object.assign(layer, { index, entering: [], leaving: [] }));
BLOCKS.forEach((block, index) => {
  block.index = index;
  LAYERS[block.target].entering.push(block);
  LAYERS[block.source].leaving.push(block);
});
const MARKED = new Map();
for (const [axis, kinds] of Object.entries(DATA.marked)) {
  MARKED.set(axis, new Map(Object.entries(kinds).map(([kind, list]) => [kind, new Set(list)])));
}

// Numbers of the form {n, f4} or {n, i2, step}; text is base64 of little-endian values.
function numbers(coded) {
  if (!coded) return null;
  if (coded.values) return coded.values;
  const text = atob(coded.f4 ?? coded.i2), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const view = new DataView(bytes.buffer), values = new Float32Array(coded.n);
  for (let i = 0; i < coded.n; i++) {
    values[i] = coded.f4 !== undefined ? view.getFloat32(4 * i, true) : view.getInt16(2 * i, true) * coded.step;
  }
  coded.values = values;
  return values;
}

// The axis and those it is nested in, outermost first.
function chain(name) {
  const axis = AXES.get(name);
  return axis.within ? [...chain(axis.within), name] : [name];
}

// Indices on each axis of a layer, of a neuron counted row by row.
function places(layer, neuron) {
  const found = {};
  for (const name of [...layer.axes].reverse()) {
    const size = AXES.get(name).size;
    found[name] = neuron % size;
    neuron = Math.floor(neuron / size);
  }
  return found;
}

// The number of a neuron on one axis, all copies of a nested axis counted through.
function onAxis(layer, neuron, name) {
  const at = places(layer, neuron);
  return chain(name).reduce((sum, part) => sum * AXES.get(part).size + (at[part] ?? 0), 0);
}

function marksOf(layer, neuron) {
  const found = [];
  for (const name of layer.axes) {
    const kinds = MARKED.get(name);
    if (!kinds) continue;
    const own = onAxis(layer, neuron, name);
    for (const [kind, list] of kinds) if (list.has(own) && !found.includes(kind)) found.push(kind);
  }
  return found;
}

// How many neurons of a layer have each mark.
function markCounts(layer) {
  if (layer.counted) return layer.counted;
  const counts = new Map();
  if (layer.axes.some((name) => MARKED.has(name))) {
    for (let i = 0; i < layer.neurons; i++) {
      for (const kind of marksOf(layer, i)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
  }
  layer.counted = counts;
  return counts;
}

// A neuron's name: its index, or one index for each axis.
function neuronName(layer, neuron) {
  if (layer.axes.length === 1) return String(neuron);
  const at = places(layer, neuron);
  return layer.axes.map((name) => at[name]).join(", ");
}

function short(value) {
  if (value === undefined || value === null) return "–";
  const number = Number(value);
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return number.toLocaleString("en");
  return Number.isFinite(number) ? number.toPrecision(5).replace(/\.?0+(?=$|e)/, "") : String(value);
}

// An element; strings become text, never markup.
function make(tag, options, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options ?? {})) {
    if (name === "click") made.addEventListener("click", value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function badge(kind, count) {
  const mark = MARKS.get(kind);
  const made = make("span", { class: "badge", title: mark.meaning }, count === undefined ? mark.label : `${count} ${mark.label}`);
  made.style.setProperty("--own", `var(--${mark.colour})`);
  return made;
}
