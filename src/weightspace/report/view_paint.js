// Drawing: heat maps, strips of neurons and bars, in the reader's theme.

const PAINTED = new Set();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// From one colour through the card's to another: negative, zero, positive.
function scale() {
  const [low, zero, high] = [rgb(colour("wrong")), rgb(colour("card")), rgb(colour("right"))];
  return (share) => {
    const end = share < 0 ? low : high, weight = Math.min(1, Math.abs(share)) ** 0.7;
    return zero.map((part, i) => part + (end[i] - part) * weight);
  };
}

function extent(values) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most || 1;
}

// Paint a matrix, one pixel a cell; what is not a number is painted as ink.
function paintCells(canvas, values, rows, columns) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  const shade = scale(), most = extent(values), ink = rgb(colour("ink"));
  for (let i = 0; i < rows * columns; i++) {
    const [r, g, b] = Number.isFinite(values[i]) ? shade(values[i] / most) : ink;
    image.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

// Paint now and whenever the theme changes.
function painted(canvas, paint) {
  const again = () => paint(canvas);
  canvas.again = again;
  PAINTED.add(canvas);
  again();
  return canvas;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const canvas of PAINTED) canvas.isConnected ? canvas.again() : PAINTED.delete(canvas);
});

// The map of a block for one channel and one way of pooling.
function mapValues(block, channel, way) {
  const map = block.maps?.[channel];
  return map ? numbers(map[way] ?? map.mean) : null;
}

// A heat map that fills its place: never blurred, never thinner than can be seen.
function heatMap(block, channel, way, label) {
  const map = block.maps[channel];
  const canvas = make("canvas", { class: "map", role: "img", "aria-label": label });
  const height = Math.max(28, Math.min(560, map.rows * Math.max(2, Math.floor(520 / map.columns))));
  canvas.style.height = `${Math.min(height, Math.max(28, map.rows * 22))}px`;
  canvas.style.maxWidth = `${Math.max(160, map.columns * 22)}px`;
  return painted(canvas, (own) => paintCells(own, mapValues(block, channel, way), map.rows, map.columns));
}

// The cell of a map under the pointer.
function cellAt(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const at = (offset, length, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / length) * count)));
  return {
    row: at(event.clientY - box.top, box.height, canvas.height),
    column: at(event.clientX - box.left, box.width, canvas.width),
  };
}

// The indices that a cell stands for: Python's view_maps.starts, inverted.
function span(cell, cells, size) {
  const start = (i) => Math.floor((i * size) / cells);
  return [start(cell), start(cell + 1) - 1];
}

function spanText([first, last]) {
  return first === last ? String(first) : `${first}–${last}`;
}

// Neurons as squares, in rows; returns the canvas and what is where.
function neuronGrid(layer, feature, chosen) {
  const values = numbers(layer.numbers[feature]) ?? new Float32Array(layer.neurons);
  const columns = Math.min(layer.neurons, layer.neurons > 2048 ? 128 : 64), rows = Math.ceil(layer.neurons / columns);
  const cell = columns > 64 ? 6 : layer.neurons > 64 ? 12 : 16;
  const canvas = make("canvas", { class: "neurons", role: "img", "aria-label": `${layer.neurons} neurons of ${layer.name}` });
  canvas.cells = { columns, rows };
  canvas.style.width = `${columns * cell}px`;
  return painted(canvas, () => {
    canvas.width = columns * cell;
    canvas.height = rows * cell;
    const context = canvas.getContext("2d"), shade = scale(), most = extent(values);
    for (let i = 0; i < layer.neurons; i++) {
      const x = (i % columns) * cell, y = Math.floor(i / columns) * cell;
      context.fillStyle = `rgb(${shade(values[i] / most).map(Math.round).join(",")})`;
      context.fillRect(x, y, cell - 1, cell - 1);
      const marks = layer.axes.some((name) => MARKED.has(name)) ? marksOf(layer, i) : [];
      if (marks.length || i === chosen) {
        context.strokeStyle = i === chosen ? colour("ink") : colour(MARKS.get(marks[0]).colour);
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, cell - 3, cell - 3);
      }
    }
  });
}

// Values as bars around zero.
function bars(values, label) {
  const canvas = make("canvas", { class: "bars", role: "img", "aria-label": label });
  return painted(canvas, () => {
    canvas.width = Math.max(240, Math.min(1200, values.length * 4));
    canvas.height = 96;
    const context = canvas.getContext("2d"), most = extent(values), width = canvas.width / values.length;
    context.fillStyle = colour("line");
    context.fillRect(0, 47.5, canvas.width, 1);
    values.forEach((value, i) => {
      context.fillStyle = colour(value < 0 ? "wrong" : "right");
      const height = (Math.abs(value) / most) * 46;
      context.fillRect(i * width, value < 0 ? 48 : 48 - height, Math.max(1, width - (width > 3 ? 1 : 0)), height);
    });
  });
}
