// What is shown of the chosen layer, block or neuron.

const DETAIL = document.getElementById("detail");
const LISTED = 100;

function drawDetail() {
  const { layer, neuron } = STATE;
  if (!layer) {
    DETAIL.replaceChildren(make("p", { class: "hint" }, "Choose a layer to see its connections and neurons."));
    return;
  }
  const parts = [layerHead(layer)];
  if (neuron !== null) parts.push(neuronCard(layer, neuron));
  for (const block of layer.entering) parts.push(blockCard(block));
  parts.push(neuronsCard(layer));
  if (layer.leaving.length) parts.push(leavingCard(layer));
  DETAIL.replaceChildren(...parts);
}

function layerHead(layer) {
  const groups = layer.axes.map((name) => make("li", null, `${name}: ${AXES.get(name).group}`));
  return make(
    "div",
    { class: "card head" },
    make("button", { class: "close", type: "button", "aria-label": "Close", click: () => show(null) }, "×"),
    make("h2", null, layer.name),
    make("p", { class: "about" }, `${layer.neurons.toLocaleString("en")} ${layer.role} neurons, activation ${layer.activation}`),
    make("ul", { class: "plain" }, ...groups),
    layer.tensors.length ? make("p", { class: "about" }, `added at its neurons: ${layer.tensors.join(", ")}`) : null,
    make("p", null, ...[...markCounts(layer)].map(([kind, n]) => badge(kind, n))),
  );
}

function selector(pairs, current, label, change) {
  const made = make("select", { "aria-label": label }, ...pairs.map(([key, name]) => make("option", { value: key, selected: key === current }, name)));
  made.addEventListener("change", () => change(made.value));
  return made;
}

function blockTitle(block) {
  const [groups, targets, sources, features] = block.shape;
  const each = features > 1 ? ` × ${features} values` : "";
  const size = groups > 1 && targets === 1 && sources === 1 ? `${groups}, each neuron with itself${each}` : `${groups > 1 ? `${groups} groups of ` : ""}${targets} × ${sources}${each}`;
  return [`${block.kind}: ${LAYERS[block.source].name} → ${LAYERS[block.target].name}`, size];
}

function blockCard(block) {
  const [title, about] = blockTitle(block);
  const size = block.kind === "attention" ? `${about}: queries, keys and values side by side` : about;
  const card = make("div", { class: "card block" }, make("h3", null, title), make("p", { class: "about" }, `${size}${block.tensors.length ? ` · ${block.tensors.map(([name, shape]) => `${name} [${shape.join(", ")}]`).join(", ")}` : ""}`));
  if (!block.maps) return card;
  card.append(statisticsList(block));
  const channels = DATA.channels.filter(([key]) => block.maps[key]);
  const ways = [["largest", "largest magnitude"], ["mean", "mean"]];
  let [channel, way] = [channels.some(([key]) => key === STATE.channel) ? STATE.channel : channels[0][0], STATE.way];
  const place = make("div", { class: "place" }), readout = make("output", { class: "readout" });
  const fill = () => {
    const map = block.maps[channel], label = `${channels.find(([key]) => key === channel)[1]}, ${map.of[0]} × ${map.of[1]}`;
    const canvas = heatMap(block, channel, way, label);
    readMap(canvas, block, () => channel, () => way, readout);
    place.replaceChildren(canvas);
    const values = mapValues(block, channel, way), cells = map.whole ? "every value" : `${map.rows} × ${map.columns} cells`;
    const colours = values.every((value) => value === 0) ? "all are zero" : `blue is positive, orange negative, up to ${short(extent(values))}`;
    readout.textContent = `${label}: ${cells}; ${colours}`;
  };
  const pooledAnywhere = channels.some(([key]) => !block.maps[key].whole);
  card.append(
    make(
      "div",
      { class: "controls" },
      channels.length > 1 ? selector(channels, channel, "What is shown", (value) => { channel = STATE.channel = value; fill(); }) : null,
      pooledAnywhere ? selector(ways, way, "How cells are made", (value) => { way = STATE.way = value; fill(); }) : null,
    ),
    place,
    readout,
  );
  fill();
  return card;
}

function statisticsList(block) {
  const own = block.statistics ?? {}, whose = make("div", null, make("dt", null, "of"), make("dd", null, DATA.channels[0][1]));
  return make("dl", { class: "statistics" }, whose, ...Object.entries(own).map(([key, value]) => make("div", null, make("dt", null, key), make("dd", { "data-value": value, "data-key": key }, short(value)))));
}

// Say the cell under the pointer; a click chooses its row's neuron and shows the row.
function readMap(canvas, block, channelOf, wayOf, readout) {
  const say = (event) => {
    const map = block.maps[channelOf()], { row, column } = cellAt(canvas, event);
    const value = mapValues(block, channelOf(), wayOf())[row * map.columns + column];
    const [rows, columns] = [span(row, map.rows, map.of[0]), span(column, map.columns, map.of[1])];
    const ends = map.of[0] === 1 ? `neuron ${spanText(columns)}` : `to ${spanText(rows)}, from ${sourceText(map, columns)}`;
    readout.textContent = `${ends}: ${short(value)}`;
    return { rows, columns, single: map.of[0] === 1 };
  };
  canvas.addEventListener("mousemove", say);
  canvas.addEventListener("click", (event) => {
    const { rows, columns, single } = say(event);
    show(LAYERS[block.target], single ? columns[0] : rows[0]);
  });
}

function sourceText(map, [first, last]) {
  const size = map.of[1] / map.bands, band = Math.floor(first / size);
  if (map.bands === 1) return spanText([first, last]);
  return `${spanText([first % size, Math.floor(last / size) === band ? last % size : size - 1])} (part ${band + 1} of ${map.bands})`;
}

function neuronCard(layer, neuron) {
  const marks = marksOf(layer, neuron);
  const values = DATA.features.filter(([key]) => layer.numbers[key]).map(([key, label]) => {
    const value = numbers(layer.numbers[key])[neuron];
    return make("div", null, make("dt", null, label), make("dd", { "data-feature": key, "data-value": value }, short(value)));
  });
  const card = make(
    "div",
    { class: "card neuron" },
    make("h3", null, `Neuron ${neuronName(layer, neuron)}`),
    make("p", null, ...marks.map((kind) => badge(kind))),
    make("dl", { class: "statistics" }, ...values),
    make("ul", { class: "plain" }, ...reasons(layer, neuron)),
  );
  for (const block of layer.entering) card.append(...profile(block, neuron));
  const twins = layer.axes.flatMap((name) => AXES.get(name).places).filter((name) => name !== layer.name);
  if (twins.length) {
    const links = [...new Set(twins)].slice(0, 40).map((name) => layerLink(LAYERS.find((own) => own.name === name), layer.axes.length === 1 ? neuron : null));
    card.append(make("p", { class: "about" }, "Tied with the same neurons at: ", ...links));
  }
  return card;
}

function reasons(layer, neuron) {
  const found = [];
  for (const name of layer.axes) {
    const own = onAxis(layer, neuron, name);
    for (const [mark, axis, list, text] of DATA.findings) {
      if (axis !== name || !list.includes(own)) continue;
      const others = list.filter((other) => other !== own).slice(0, 20);
      found.push(make("li", null, `${MARKS.get(mark).label}: ${text}${others.length ? ` (with ${others.join(", ")})` : ""}`));
    }
  }
  return found;
}

// The row of a block's map that a neuron is in, as bars.
function profile(block, neuron) {
  const channel = DATA.channels.map(([key]) => key).find((key) => block.maps?.[key]);
  const map = channel && block.maps[channel];
  if (!map || map.of[0] === 1) return [];
  const rows = [...Array(map.rows).keys()].find((row) => {
    const [first, last] = span(row, map.rows, map.of[0]);
    return neuron >= first && neuron <= last;
  });
  if (rows === undefined) return [];
  const values = mapValues(block, channel, STATE.way).slice(rows * map.columns, (rows + 1) * map.columns);
  const whose = spanText(span(rows, map.rows, map.of[0]));
  const title = map.whole ? "incoming weights" : `incoming weights of neurons ${whose}, ${map.columns} cells, ${STATE.way === "mean" ? "mean" : "largest magnitude"}`;
  const label = `${title} from ${LAYERS[block.source].name}`;
  return [make("p", { class: "about" }, label), bars([...values], label)];
}

function neuronsCard(layer) {
  const features = DATA.features.filter(([key]) => layer.numbers[key]);
  const card = make("div", { class: "card" }, make("h3", null, "Neurons"));
  if (!features.length) features.push(["", "index"]);
  let feature = features.some(([key]) => key === STATE.feature) ? STATE.feature : features[0][0];
  const place = make("div"), readout = make("output", { class: "readout" });
  const fill = () => {
    const canvas = neuronGrid(layer, feature, STATE.neuron);
    const at = (event) => {
      const { columns, rows } = canvas.cells, box = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * columns), row = Math.floor(((event.clientY - box.top) / box.height) * rows);
      return row * columns + column;
    };
    canvas.addEventListener("mousemove", (event) => {
      const own = at(event);
      if (own < layer.neurons) readout.textContent = `neuron ${neuronName(layer, own)}: ${short(numbers(layer.numbers[feature])?.[own])}`;
    });
    canvas.addEventListener("click", (event) => at(event) < layer.neurons && show(layer, at(event)));
    place.replaceChildren(canvas, readout, neuronTable(layer, features, feature));
  };
  card.append(make("div", { class: "controls" }, selector(features, feature, "Number of each neuron", (value) => { feature = STATE.feature = value; fill(); })), place);
  fill();
  return card;
}

// Marked neurons first, then those with the largest numbers.
function neuronTable(layer, features, feature) {
  const values = numbers(layer.numbers[feature]), order = [...Array(layer.neurons).keys()];
  const marked = order.map((i) => (markCounts(layer).size ? marksOf(layer, i).length : 0));
  order.sort((a, b) => marked[b] - marked[a] || (values ? Math.abs(values[b]) - Math.abs(values[a]) : a - b) || a - b);
  const head = make("tr", null, make("th", null, "neuron"), ...features.map(([, label]) => make("th", null, label)), make("th", null, ""));
  const rows = order.slice(0, LISTED).map((i) =>
    make("tr", null, make("td", null, make("button", { type: "button", class: "link", click: () => show(layer, i) }, neuronName(layer, i))), ...features.map(([key]) => make("td", null, short(numbers(layer.numbers[key])?.[i]))), make("td", null, ...marksOf(layer, i).map((kind) => badge(kind)))),
  );
  const more = layer.neurons > LISTED ? make("p", { class: "about" }, `The first ${LISTED} of ${layer.neurons.toLocaleString("en")}; the squares above show all.`) : null;
  return make("details", { open: layer.neurons <= 16 }, make("summary", null, "Table"), make("div", { class: "wide" }, make("table", null, make("thead", null, head), make("tbody", null, ...rows))), more);
}

function leavingCard(layer) {
  const links = layer.leaving.map((block) => make("li", null, `${block.kind} `, layerLink(LAYERS[block.target])));
  return make("div", { class: "card" }, make("h3", null, "Read by"), make("ul", { class: "plain" }, ...links));
}

function layerLink(layer, neuron = null) {
  return make("button", { type: "button", class: "link", click: () => { show(layer, neuron); reveal(layer); } }, layer.name);
}
