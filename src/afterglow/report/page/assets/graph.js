// The graph of a stage on a canvas: only what is in sight is drawn.

const NODE_HEIGHT = 54;
const RANK_HEIGHT = 86;
const LEAST_ZOOM = 0.02;
const MOST_ZOOM = 3;

const graph = { stage: null, zoom: 1, x: 0, y: 0, canvas: null, map: null, matches: [], match: -1, asked: false, cameras: new Map() };

function buildGraph() {
  graph.canvas = make("canvas", { class: "main", tabindex: 0, role: "img", "aria-label": "Graph. Arrow keys move along it, plus and minus zoom." });
  graph.map = make("canvas", { class: "map", "aria-hidden": "true" });
  listenToPointer();
  graph.canvas.addEventListener("keydown", graphKey);
  addEventListener("resize", askGraph);
  addEventListener("themechange", askGraph);
  onSelect(revealSelection);
  const tools = graphTools();
  const area = make("div", { class: "graph" }, graph.canvas, graph.map);
  setTimeout(() => {
    const own = selection.stage || stages.find((stage) => stage.name === "graph") || stages[0];
    showStage(own);
    if (selection.stage) centreOn(selection.index);
  });
  return [tools, area];
}

function graphTools() {
  const buttons = stages.map((stage) => {
    stage.button = make("button", { type: "button", "aria-pressed": "false", onclick: () => switchStage(stage) }, stage.title);
    return stage.button;
  });
  const search = make("input", { id: "search", type: "search", placeholder: "Search name, op or type  ( / )", "aria-label": "Search nodes by name, op or type", size: 30, oninput: searchNodes, onkeydown: (event) => {
    if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1);
  } });
  return make("div", { class: "tools" },
    make("div", { class: "group", role: "group", "aria-label": "Stage" }, ...buttons),
    search,
    make("span", { id: "matches", class: "soft", role: "status" }),
    make("span", { class: "space" }),
    make("div", { class: "group", role: "group", "aria-label": "Zoom" },
      make("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoomBy(1 / 1.3) }, "−"),
      make("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoomBy(1.3) }, "+"),
      make("button", { type: "button", onclick: fitGraph }, "Fit")));
}

/** Show another stage; what is linked with the selected node is brought into sight. */
function switchStage(stage) {
  showStage(stage);
  const linked = selection.stage && selection.stage !== stage ? linkedNodes(stage, selection.origins) : [];
  if (linked.length) centreOn(linked[0]);
}

function showStage(stage) {
  if (graph.stage) graph.cameras.set(graph.stage, { zoom: graph.zoom, x: graph.x, y: graph.y });
  graph.stage = stage;
  for (const each of stages) each.button.setAttribute("aria-pressed", each === stage);
  prepare(stage);
  const camera = graph.cameras.get(stage);
  if (camera) Object.assign(graph, camera);
  else startView();
  searchNodes();
  askGraph();
}

function prepare(stage) {
  if (stage.size) return;
  stage.next = stage.nodes.map(() => []);
  stage.previous = stage.nodes.map(() => []);
  stage.paths = stage.edges.map((edge) => pathOf(stage, edge));
  for (const [from, to] of stage.edges) {
    stage.next[from].push(to);
    stage.previous[to].push(from);
  }
  let right = 1;
  let last = 0;
  stage.x.forEach((x, index) => {
    right = Math.max(right, x + stage.width[index] / 2);
    last = Math.max(last, stage.rank[index]);
  });
  stage.size = { width: right, height: last * RANK_HEIGHT + NODE_HEIGHT };
  stage.most = stage.nodes.reduce((most, node) => Math.max(most, ownSeconds(stage, node) || 0), 0);
}

/** The points that an edge passes, and the box that they are in. */
function pathOf(stage, [from, to, ...bends]) {
  const points = [[stage.x[from], stage.rank[from] * RANK_HEIGHT + NODE_HEIGHT]];
  bends.forEach((x, place) => points.push([x, (stage.rank[from] + 1 + place) * RANK_HEIGHT + NODE_HEIGHT / 2]));
  points.push([stage.x[to], stage.rank[to] * RANK_HEIGHT]);
  const xs = points.map((point) => point[0]);
  return { points, left: Math.min(...xs), right: Math.max(...xs), top: points[0][1], bottom: points[points.length - 1][1] };
}

// The camera: a point of the graph is at (point + camera) * zoom on the canvas.

function canvasSize() {
  return { width: graph.canvas.clientWidth, height: graph.canvas.clientHeight };
}

/** The top of the graph, so large that it can be read. */
function startView() {
  const { width } = canvasSize();
  const stage = graph.stage;
  graph.zoom = Math.min(1, Math.max((width - 120) / stage.size.width, 0.75));
  graph.x = (width - 60) / graph.zoom / 2 - stage.x[0];
  graph.y = 24 / graph.zoom;
}

function fitGraph() {
  const { width, height } = canvasSize();
  const size = graph.stage.size;
  graph.zoom = Math.max(Math.min((width - 120) / size.width, (height - 40) / size.height, 1), LEAST_ZOOM);
  graph.x = (width - 60) / graph.zoom / 2 - size.width / 2;
  graph.y = height / graph.zoom / 2 - size.height / 2;
  askGraph();
}

function zoomBy(factor, at) {
  const { width, height } = canvasSize();
  const [x, y] = at || [width / 2, height / 2];
  const zoom = Math.min(Math.max(graph.zoom * factor, LEAST_ZOOM), MOST_ZOOM);
  graph.x += x / zoom - x / graph.zoom;
  graph.y += y / zoom - y / graph.zoom;
  graph.zoom = zoom;
  askGraph();
}

function centreOn(index) {
  const { width, height } = canvasSize();
  const stage = graph.stage;
  if (!stage.drawn) return;
  graph.zoom = Math.max(graph.zoom, 0.7);
  graph.x = width / graph.zoom / 2 - stage.x[index];
  graph.y = height / graph.zoom / 2 - stage.rank[index] * RANK_HEIGHT - NODE_HEIGHT / 2;
  askGraph();
}

function isInSight(index) {
  const { width, height } = canvasSize();
  const x = (graph.stage.x[index] + graph.x) * graph.zoom;
  const y = (graph.stage.rank[index] * RANK_HEIGHT + graph.y) * graph.zoom;
  return x > 40 && x < width - 100 && y > 20 && y < height - NODE_HEIGHT * graph.zoom - 10;
}

function revealSelection() {
  if (!graph.stage) return;
  if (selection.stage && selection.stage !== graph.stage) {
    const view = views.find((each) => each.name === "graph");
    const linked = linkedNodes(graph.stage, selection.origins);
    if (!view.element.hidden) showStage(selection.stage);
    else if (linked.length) centreOn(linked[0]);
  }
  if (selection.stage === graph.stage && selection.stage && !isInSight(selection.index)) centreOn(selection.index);
  askGraph();
}

// Drawing.

function askGraph() {
  if (graph.asked || !graph.stage) return;
  graph.asked = true;
  requestAnimationFrame(() => {
    graph.asked = false;
    drawGraph();
  });
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["page", "surface", "line", "text", "soft", "accent", "tint", "found", "found-tint", "alarm", "raised"].map((name) => [name, read(name)]));
}

function sized(canvas) {
  const ratio = devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return pen;
}

function drawGraph() {
  const pen = sized(graph.canvas);
  const { width, height } = canvasSize();
  const stage = graph.stage;
  if (!width) return;
  const colours = palette();
  if (!stage.drawn) {
    pen.fillStyle = colours.soft;
    pen.font = "14px system-ui, sans-serif";
    pen.fillText(`${countText(stage.nodes.length)} nodes are too many to draw: the view Text has them.`, 24, 40);
    return;
  }
  const sight = { left: -graph.x, top: -graph.y, right: width / graph.zoom - graph.x, bottom: height / graph.zoom - graph.y };
  pen.save();
  pen.scale(graph.zoom, graph.zoom);
  pen.translate(graph.x, graph.y);
  drawEdges(pen, stage, sight, colours);
  drawNodes(pen, stage, sight, colours);
  pen.restore();
  drawMap(stage, sight, colours);
}

function drawEdges(pen, stage, sight, colours) {
  const chosen = selection.stage === stage ? selection.index : -1;
  pen.lineWidth = 1.2 / Math.max(graph.zoom, 0.4);
  const marked = [];
  pen.strokeStyle = colours.soft;
  pen.globalAlpha = 0.55;
  pen.beginPath();
  stage.paths.forEach((path, place) => {
    if (path.right < sight.left || path.left > sight.right || path.bottom < sight.top || path.top > sight.bottom) return;
    const [from, to] = stage.edges[place];
    if (from === chosen || to === chosen) marked.push(path);
    else trace(pen, path.points);
  });
  pen.stroke();
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.accent;
  pen.lineWidth *= 1.8;
  pen.beginPath();
  marked.forEach((path) => trace(pen, path.points));
  pen.stroke();
}

function trace(pen, points) {
  pen.moveTo(...points[0]);
  for (let place = 1; place < points.length; place++) {
    const [x0, y0] = points[place - 1];
    const [x, y] = points[place];
    const middle = (y0 + y) / 2;
    if (graph.zoom < 0.15) pen.lineTo(x, y);
    else pen.bezierCurveTo(x0, middle, x, middle, x, y);
  }
}

function drawNodes(pen, stage, sight, colours) {
  const found = new Set(graph.matches);
  const detailed = graph.zoom > 0.35;
  stage.nodes.forEach((node, index) => {
    const width = stage.width[index];
    const left = stage.x[index] - width / 2;
    const top = stage.rank[index] * RANK_HEIGHT;
    if (left > sight.right || left + width < sight.left || top > sight.bottom || top + NODE_HEIGHT < sight.top) return;
    const port = node.line === undefined;
    const chosen = selection.stage === stage && selection.index === index;
    pen.fillStyle = isLinked(stage, index) ? colours.tint : found.has(index) ? colours["found-tint"] : port ? colours.raised : colours.surface;
    pen.strokeStyle = chosen ? colours.accent : found.has(index) ? colours.found : isLinked(stage, index) ? colours.accent : colours.line;
    pen.lineWidth = chosen ? 3 : 1.4;
    pen.beginPath();
    pen.roundRect(left, top, width, NODE_HEIGHT, port ? NODE_HEIGHT / 2 : 7);
    pen.fill();
    pen.stroke();
    if (!port) {
      pen.fillStyle = colourOf(kindOf(node));
      pen.beginPath();
      pen.roundRect(left, top, detailed ? 5 : width, NODE_HEIGHT, [7, detailed ? 0 : 7, detailed ? 0 : 7, 7]);
      pen.fill();
    }
    if (detailed) drawLabels(pen, stage, node, left, top, width, colours);
  });
}

function drawLabels(pen, stage, node, left, top, width, colours) {
  const port = node.line === undefined;
  const seconds = ownSeconds(stage, node);
  const timed = seconds && width > 110 ? timeText(seconds) : "";
  const room = width - (port ? 36 : 20);
  const start = left + (port ? 18 : 13);
  pen.textBaseline = "middle";
  pen.fillStyle = colours.text;
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillText(clip(node.op, (room - (timed ? timed.length * 6.5 + 8 : 0)) / 7.4), start, top + 13);
  pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
  pen.fillText(clip(node.name, room / 6.7), start, top + 28);
  pen.fillStyle = colours.soft;
  pen.fillText(clip(node.type, room / 6.7), start, top + 42);
  if (timed) {
    pen.textAlign = "right";
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(timed, left + width - 8, top + 13);
    pen.textAlign = "left";
  }
  if (seconds && stage.most) {
    pen.fillStyle = colours.alarm;
    pen.fillRect(left + 5, top + NODE_HEIGHT - 3, (width - 10) * Math.min(seconds / stage.most, 1), 3);
  }
}

/** The time of a node where it has one of its own: several nodes may come from one of the model. */
function ownSeconds(stage, node) {
  return stage === program || stage.name === "model" ? secondsOf(stage, node) : undefined;
}

function clip(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(Math.floor(letters) - 1, 1))}…`;
}

/** All of the graph, small, and the part in sight. */
function drawMap(stage, sight, colours) {
  const pen = sized(graph.map);
  const { scale, left, top } = mapScale(stage);
  stage.nodes.forEach((node, index) => {
    pen.fillStyle = isLinked(stage, index) ? colours.accent : node.line === undefined ? colours.soft : colourOf(kindOf(node));
    const size = isLinked(stage, index) ? 4 : Math.max(stage.width[index] * scale, 1);
    pen.fillRect(left + stage.x[index] * scale - size / 2, top + stage.rank[index] * RANK_HEIGHT * scale, size, Math.max(NODE_HEIGHT * scale, isLinked(stage, index) ? 3 : 1));
  });
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 1.5;
  const y = Math.max(top + sight.top * scale, 1);
  const bottom = Math.min(top + sight.bottom * scale, graph.map.clientHeight - 1);
  const x = Math.max(left + sight.left * scale, 1);
  pen.strokeRect(x, y, Math.min(left + sight.right * scale, graph.map.clientWidth - 1) - x, Math.max(bottom - y, 3));
}

function mapScale(stage) {
  const { clientWidth: width, clientHeight: height } = graph.map;
  const scale = Math.min((width - 10) / stage.size.width, (height - 10) / stage.size.height, 0.12);
  return { scale, left: (width - stage.size.width * scale) / 2, top: (height - stage.size.height * scale) / 2 };
}

// Pointer, keys, search.

function nodeAt(x, y) {
  const stage = graph.stage;
  const there = [x / graph.zoom - graph.x, y / graph.zoom - graph.y];
  return stage.nodes.findIndex((_, index) => {
    const top = stage.rank[index] * RANK_HEIGHT;
    return Math.abs(there[0] - stage.x[index]) <= stage.width[index] / 2 && there[1] >= top && there[1] <= top + NODE_HEIGHT;
  });
}

function listenToPointer() {
  const { canvas, map } = graph;
  let from = null;
  let moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    from = [event.offsetX, event.offsetY];
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return hoverGraph(event);
    if (Math.hypot(event.offsetX - from[0], event.offsetY - from[1]) < 3 && !moved) return undefined;
    moved = true;
    graph.x += (event.offsetX - from[0]) / graph.zoom;
    graph.y += (event.offsetY - from[1]) / graph.zoom;
    from = [event.offsetX, event.offsetY];
    return askGraph();
  });
  canvas.addEventListener("pointerup", (event) => {
    const index = from && !moved ? nodeAt(event.offsetX, event.offsetY) : -1;
    if (index >= 0) select(graph.stage, index);
    from = null;
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), [event.offsetX, event.offsetY]);
  }, { passive: false });
  const jump = (event) => {
    if (!event.buttons) return;
    const { scale, left, top } = mapScale(graph.stage);
    const { width, height } = canvasSize();
    graph.x = width / graph.zoom / 2 - (event.offsetX - left) / scale;
    graph.y = height / graph.zoom / 2 - (event.offsetY - top) / scale;
    askGraph();
  };
  map.addEventListener("pointerdown", jump);
  map.addEventListener("pointermove", jump);
}

function hoverGraph(event) {
  const index = nodeAt(event.offsetX, event.offsetY);
  if (index < 0) return hideTip();
  const node = graph.stage.nodes[index];
  const origins = node.origins.map((origin) => facts.origins[origin]).join(", ");
  return showTip(event, [`${node.op}  ${node.name}`, node.type, origins ? `from ${origins}` : ""].filter(Boolean).join("\n"));
}

function graphKey(event) {
  const here = selection.stage === graph.stage ? selection.index : null;
  const actions = { "+": () => zoomBy(1.3), "=": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3), 0: fitGraph };
  const moves = { ArrowDown: () => graph.stage.next[here][0], ArrowUp: () => graph.stage.previous[here][0], ArrowLeft: () => beside(here, -1), ArrowRight: () => beside(here, 1) };
  if (actions[event.key]) actions[event.key]();
  else if (moves[event.key]) {
    const next = here === null ? 0 : moves[event.key]();
    if (next !== undefined) select(graph.stage, next);
  } else return;
  event.preventDefault();
}

/** The node of the same rank to the left or right. */
function beside(index, step) {
  const stage = graph.stage;
  const row = stage.nodes.map((_, other) => other).filter((other) => stage.rank[other] === stage.rank[index]);
  row.sort((a, b) => stage.x[a] - stage.x[b]);
  return row[row.indexOf(index) + step];
}

function searchNodes() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const says = (node) => `${node.name} ${node.op} ${node.type} ${node.origins.map((origin) => facts.origins[origin]).join(" ")}`.toLowerCase();
  graph.matches = words.length ? graph.stage.nodes.flatMap((node, index) => (words.every((word) => says(node).includes(word)) ? [index] : [])) : [];
  graph.match = -1;
  byId("matches").textContent = words.length ? `${countText(graph.matches.length)} found` : "";
  askGraph();
}

function nextMatch(step) {
  const count = graph.matches.length;
  if (!count) return;
  graph.match = (graph.match + step + count) % count;
  byId("matches").textContent = `${graph.match + 1} of ${countText(count)}`;
  select(graph.stage, graph.matches[graph.match]);
  centreOn(graph.matches[graph.match]);
}
