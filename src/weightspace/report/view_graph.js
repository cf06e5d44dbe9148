// The layers in the order of computation, folded into modules, with connections beside them.

const GRAPH = document.getElementById("graph");
const ROWS_AT_FIRST = 36;
const ROOT = { name: "", path: "", children: [], depth: -1, open: true };

// Modules by the parts of names; a module with one child of its own name is that child.
function buildTree() {
  for (const layer of LAYERS) {
    let here = ROOT;
    const parts = layer.name.split(" ")[0].split(".");
    parts.slice(0, -1).forEach((part, depth) => {
      let next = here.children.find((child) => child.name === part && child.children);
      if (!next) {
        next = { name: part, path: here.path ? `${here.path}.${part}` : part, children: [], depth, open: false, parent: here };
        here.children.push(next);
      }
      here = next;
    });
    here.children.push({ layer, parent: here, depth: here.depth + 1 });
  }
  single(ROOT);
  // Open what fits, outermost modules first.
  let level = ROOT.children.filter((item) => item.children), shown = ROOT.children.length;
  while (level.length) {
    const more = level.reduce((sum, item) => sum + item.children.length, 0);
    if (shown + more > ROWS_AT_FIRST) break;
    for (const item of level) item.open = true;
    shown += more;
    level = level.flatMap((item) => item.children.filter((child) => child.children));
  }
}

// Where a module holds one module alone, the two are one row.
function single(item) {
  item.children = item.children.map((child) => {
    while (child.children?.length === 1 && child.children[0].children) {
      const only = child.children[0];
      Object.assign(only, { name: `${child.name}.${only.name}`, parent: item, depth: child.depth });
      child = only;
    }
    if (child.children) {
      child.depth = item.depth + 1;
      child.parent = item;
      single(child);
    } else {
      child.depth = item.depth + 1;
    }
    return child;
  });
}

function layersOf(item) {
  return item.layer ? [item.layer] : item.children.flatMap(layersOf);
}

// Marked neurons of a module: each axis counts once, however many layers it stands at.
function moduleCounts(layers) {
  const counts = new Map();
  for (const name of new Set(layers.flatMap((layer) => layer.axes))) {
    for (const [kind, list] of MARKED.get(name) ?? []) counts.set(kind, (counts.get(kind) ?? 0) + list.size);
  }
  return counts;
}

function rowLabel(item) {
  const layers = layersOf(item), counts = item.layer ? markCounts(item.layer) : moduleCounts(layers);
  const badges = [...counts].map(([kind, n]) => badge(kind, n));
  if (item.layer) {
    const { role, activation, neurons } = item.layer;
    const about = [`${neurons.toLocaleString("en")} neurons`, role === "hidden" ? "" : role, activation === "none" ? "" : activation];
    return [item.layer.name.slice(item.parent.path ? item.parent.path.length + 1 : 0) || item.layer.name, about.filter(Boolean).join(" · "), badges];
  }
  const entering = layers.flatMap((layer) => layer.entering);
  const connections = entering.reduce((sum, block) => sum + block.shape[0] * block.shape[1] * block.shape[2], 0);
  return [item.name, `${layers.length} layers · ${connections.toLocaleString("en")} connections`, badges];
}

function thumbnail(layer) {
  const block = layer.entering.find((own) => own.maps && own.maps.weight?.rows > 1) ?? layer.entering.find((own) => own.maps);
  if (!block) return make("span", { class: "thumb" });
  const channel = Object.keys(block.maps)[0], map = block.maps[channel];
  const canvas = make("canvas", { class: "thumb", "aria-hidden": "true" });
  return painted(canvas, (own) => paintCells(own, mapValues(block, channel, "largest"), map.rows, map.columns));
}

function drawRow(item) {
  const [name, about, badges] = rowLabel(item);
  const row = make(
    "div",
    { class: item.layer ? "row layer" : "row module", tabindex: "-1", role: "treeitem", "aria-level": item.depth + 1 },
    item.layer ? thumbnail(item.layer) : make("span", { class: "caret", "aria-hidden": "true" }, item.open ? "▾" : "▸"),
    make("span", { class: "words" }, make("span", { class: "name" }, name), make("span", { class: "about" }, about)),
    make("span", { class: "badges" }, ...badges),
  );
  row.style.setProperty("--depth", item.depth);
  if (item.children) row.setAttribute("aria-expanded", item.open);
  row.item = item;
  item.row = row;
  row.addEventListener("click", () => choose(item));
  return row;
}

function visible(item = ROOT) {
  return item.children.flatMap((child) => (child.children && child.open ? [child, ...visible(child)] : [child]));
}

function drawGraph() {
  const rows = visible();
  const list = make("div", { id: "rows", role: "tree", "aria-label": "Layers in the order of computation" });
  for (const item of rows) list.append(drawRow(item));
  const lines = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  lines.setAttribute("id", "lines");
  lines.setAttribute("aria-hidden", "true");
  GRAPH.replaceChildren(lines, list);
  markChosen();
  requestAnimationFrame(drawLines);
}

// The row that a layer is in: its own, or the folded module around it.
function rowsByLayer() {
  const found = new Array(LAYERS.length);
  for (const item of visible()) {
    if (item.layer) found[item.layer.index] = item;
    else if (!item.open) for (const layer of layersOf(item)) found[layer.index] = item;
  }
  return found;
}

function drawLines() {
  const lines = document.getElementById("lines"), owner = rowsByLayer(), seen = new Set();
  if (!lines) return;
  lines.replaceChildren();
  lines.setAttribute("height", document.getElementById("rows").offsetHeight);
  const order = new Map(visible().map((item, i) => [item, i]));
  for (const block of BLOCKS) {
    const from = owner[block.source], to = owner[block.target];
    const key = `${order.get(from)} ${order.get(to)}`;
    if (!from || !to || from === to || seen.has(key)) continue;
    seen.add(key);
    const middle = (item) => item.row.offsetTop + item.row.offsetHeight / 2;
    const [y1, y2] = [middle(from), middle(to)];
    const near = Math.abs(order.get(from) - order.get(to)) === 1;
    const bend = near ? 6 : Math.min(30, 8 + Math.abs(y2 - y1) / 14);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M34 ${y1} C${34 - bend} ${y1} ${34 - bend} ${y2} 34 ${y2}`);
    path.setAttribute("class", near ? "near" : "far");
    lines.append(path);
    if (seen.size > 400) break;
  }
}

// Unfold all modules around a layer and bring it into view.
function reveal(layer) {
  const walk = (item) => {
    if (item.layer) return item.layer === layer;
    const inside = item.children.some(walk);
    if (inside) item.open = true;
    return inside;
  };
  walk(ROOT);
  drawGraph();
  visible().find((item) => item.layer === layer)?.row.scrollIntoView({ block: "nearest" });
}

function markChosen() {
  for (const item of visible()) {
    const own = item.layer !== undefined && item.layer === STATE.layer;
    item.row?.classList.toggle("chosen", own);
    item.row?.setAttribute("aria-selected", own);
    if (item.row) item.row.tabIndex = item === STATE.focus ? 0 : -1;
  }
}
