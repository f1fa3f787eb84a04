// The facts, what every view needs to show them, and which node is selected.

const facts = JSON.parse(document.getElementById("facts").textContent);
const stages = facts.stages;
const COLOURS = ["#4e79a7", "#d9772b", "#4f9146", "#a0619a", "#2f9490", "#b08a1e", "#c8505f", "#8a6d5b"];
const OTHER_COLOUR = "#8f8a87";

function byId(id) {
  return document.getElementById(id);
}

/** An element: attributes by name, listeners as "onclick", children as nodes or texts. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in a drawing. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function countText(count) {
  return Math.round(count).toLocaleString("en");
}

function bytesText(count) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= size) return `${Number((count / size).toFixed(2))} ${unit}`;
  }
  return `${count} B`;
}

function timeText(seconds) {
  if (seconds < 1e-5) return `${(seconds * 1e6).toFixed(1)} µs`;
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  return seconds < 1 ? `${(seconds * 1e3).toFixed(seconds < 0.1 ? 2 : 1)} ms` : `${seconds.toFixed(2)} s`;
}

function percentText(share) {
  return `${(share * 100).toFixed(1)} %`;
}

// What links nodes of different stages: nodes of the model that they come from.

for (const stage of stages) {
  stage.byOrigin = new Map();
  stage.lines = stage.text.split("\n");
  stage.nodeOfLine = new Map();
  stage.nodes.forEach((node, index) => {
    for (const origin of node.origins) {
      if (!stage.byOrigin.has(origin)) stage.byOrigin.set(origin, []);
      stage.byOrigin.get(origin).push(index);
    }
    const count = node.lines || 1;
    for (let line = 0; node.line !== undefined && line < count; line++) {
      stage.nodeOfLine.set(node.line + line, index);
    }
  });
}

function stageNamed(name) {
  return stages.find((stage) => stage.name === name);
}

const program = stageNamed("instructions");
const originNumbers = new Map(facts.origins.map((name, number) => [name, number]));
const firstStep = program ? program.nodes.findIndex((node) => node.step === 0) : -1;

/** The nodes of a stage that come from some nodes of the model, in order. */
function linkedNodes(stage, origins) {
  const found = new Set();
  for (const origin of origins) for (const node of stage.byOrigin.get(origin) || []) found.add(node);
  return [...found].sort((a, b) => a - b);
}

// The seconds of each model node, and of each node by those.

const secondsOfOrigin = new Map();
for (const row of facts.times ? facts.times.nodes : []) {
  if (originNumbers.has(row.node)) secondsOfOrigin.set(originNumbers.get(row.node), row.seconds);
}

function secondsOf(stage, node) {
  if (stage === program) return node.seconds;
  if (!facts.times || !node.origins.length) return undefined;
  return node.origins.reduce((sum, origin) => sum + (secondsOfOrigin.get(origin) || 0), 0);
}

// Colours: one for each of the ops that are there most often.

const kindColours = (() => {
  const counts = new Map();
  for (const stage of stages.filter((each) => each.name !== "model")) {
    for (const node of stage.nodes) {
      if (node.line !== undefined) counts.set(kindOf(node), (counts.get(kindOf(node)) || 0) + 1);
    }
  }
  const kinds = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
  return new Map(kinds.slice(0, COLOURS.length).map((kind, place) => [kind, COLOURS[place]]));
})();

function kindOf(node) {
  return node.op.split(",")[0].toLowerCase();
}

function colourOf(kind) {
  return kindColours.get(kind.toLowerCase()) || OTHER_COLOUR;
}

// Which node is selected: views that care are told.

const selection = { stage: null, index: null, origins: new Set() };
const selectionListeners = [];

function onSelect(listener) {
  selectionListeners.push(listener);
}

function select(stage, index) {
  const node = stage === null ? null : stage.nodes[index];
  selection.stage = stage;
  selection.index = index;
  selection.origins = new Set(node === null ? [] : node.origins);
  for (const listener of selectionListeners) listener();
}

function selectStep(step) {
  if (firstStep >= 0 && step !== null && step !== undefined) select(program, firstStep + step);
}

/** Select a node of the model, by its number: in the first stage that has it. */
function selectOrigin(origin) {
  const stage = stages.find((each) => each.byOrigin.has(origin));
  if (stage) select(stage, stage.byOrigin.get(origin)[0]);
}

/** Whether a node of a stage comes from the same nodes of the model as the selected one. */
function isLinked(stage, index) {
  if (selection.stage === null) return false;
  if (stage === selection.stage && index === selection.index) return true;
  return stage.nodes[index].origins.some((origin) => selection.origins.has(origin));
}

// A tip that follows the pointer.

function showTip(event, text) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  const below = event.clientY + 18;
  tip.style.top = `${below + box.height < innerHeight ? below : event.clientY - box.height - 10}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

// Views: each has a name, a title, and a function that builds it when it is first opened.

const views = [];

function addView(name, title, build, { full = false } = {}) {
  views.push({ name, title, build, full, element: null });
}

/** A row of a table that can be chosen with the pointer and the keyboard. */
function choosable(row, choose) {
  row.tabIndex = 0;
  row.addEventListener("click", choose);
  row.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") choose();
    else if (event.key === "ArrowDown" && row.nextElementSibling) row.nextElementSibling.focus();
    else if (event.key === "ArrowUp" && row.previousElementSibling) row.previousElementSibling.focus();
    else return;
    event.preventDefault();
  });
  return row;
}
