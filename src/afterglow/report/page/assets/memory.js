// The memory map: address over time, a rectangle for each buffer.

function buildMemory() {
  const memory = facts.memory;
  const names = Object.keys(memory.arenas);
  const cards = names.map((name) => {
    const title = name ? `Arena in ${name}` : "Arena";
    const said = `${title} of ${bytesText(memory.arenas[name])}: a rectangle for each buffer, from the instruction that allocates it to the last that uses it.`;
    const whole = names.length === 1 ? ` No plan of this program needs less than ${bytesText(memory.lower_bound_bytes)}; without sharing it would take ${bytesText(memory.unshared_bytes)}.` : "";
    const there = memory.allocations.filter((each) => each.memory === name && each.bytes);
    return make("section", { class: "card" }, make("h2", {}, title), make("p", { class: "soft" }, said + whole), memoryPlot(name, there, names.length === 1), legendOf(there.map((each) => each.kind)));
  });
  if (memory.peak !== null) cards.push(peakCard());
  return cards;
}

function memoryPlot(name, allocations, whole) {
  const memory = facts.memory;
  const plot = { width: 1200, height: 460, left: 78, right: 12, top: 30, bottom: 46 };
  const highest = Math.max(memory.arenas[name], whole ? memory.lower_bound_bytes : 0, 1);
  const times = Math.max(memory.instructions, 1);
  const x = (time) => plot.left + ((plot.width - plot.left - plot.right) * time) / times;
  const y = (address) => plot.top + (plot.height - plot.top - plot.bottom) * (1 - address / highest);
  const svg = draw("svg", { class: "plot", viewBox: `0 0 ${plot.width} ${plot.height}`, tabindex: 0, role: "img", "aria-label": "Memory map: address over time. Left and right go from buffer to buffer." });
  svg.append(...memoryAxes(plot, x, y, highest, times));
  if (whole) svg.append(livePolygon(x, y));
  const marks = allocations.map((each) => bufferMark(each, x, y));
  svg.append(...marks, ...marks.flatMap((mark) => bufferName(mark)));
  if (whole && memory.peak !== null) svg.append(...peakMarks(plot, x, y));
  walkMarks(svg, marks, (mark) => selectStep(mark.about.maker));
  onSelect(() => marks.forEach((mark) => markChosen(mark, mark.about.maker)));
  return svg;
}

function memoryAxes(plot, x, y, highest, times) {
  const parts = [];
  const step = 2 ** Math.max(Math.ceil(Math.log2(Math.max(highest, 8) / 8)), 0);
  for (let address = 0; address <= highest; address += step) {
    parts.push(draw("line", { class: "grid", x1: plot.left, x2: plot.width - plot.right, y1: y(address), y2: y(address) }));
    parts.push(draw("text", { x: plot.left - 8, y: y(address) + 4, "text-anchor": "end" }, bytesText(address)));
  }
  const each = Math.max(1, 10 ** Math.ceil(Math.log10(times / 20)) / (times / 20 > 10 ** Math.ceil(Math.log10(times / 20)) / 2 ? 1 : 2));
  for (let time = 0; time < times; time += Math.ceil(each)) {
    parts.push(draw("text", { x: x(time + 0.5), y: plot.height - plot.bottom + 18, "text-anchor": "middle" }, String(time)));
  }
  parts.push(draw("text", { x: (plot.left + plot.width) / 2, y: plot.height - 6, "text-anchor": "middle" }, "instruction"));
  return parts;
}

function livePolygon(x, y) {
  const points = [`${x(0)},${y(0)}`];
  facts.memory.live_bytes.forEach((live, time) => points.push(`${x(time).toFixed(1)},${y(live).toFixed(1)} ${x(time + 1).toFixed(1)},${y(live).toFixed(1)}`));
  points.push(`${x(facts.memory.instructions)},${y(0)}`);
  return draw("polygon", { class: "live", points: points.join(" ") });
}

function bufferMark(allocation, x, y) {
  const left = x(allocation.first);
  const top = y(allocation.address + allocation.bytes);
  const mark = draw("rect", { class: "mark", x: left.toFixed(1), y: top.toFixed(1), width: Math.max(x(allocation.last + 1) - left, 1).toFixed(1), height: Math.max(y(allocation.address) - top, 0.8).toFixed(1), fill: colourOf(allocation.kind) });
  mark.about = allocation;
  mark.tip = bufferTip(allocation);
  return mark;
}

function bufferTip(allocation) {
  const maker = allocation.maker === null ? null : program.nodes[firstStep + allocation.maker];
  return [
    `${allocation.name}: ${allocation.type}`,
    `${bytesText(allocation.bytes)} at ${countText(allocation.address)}`,
    `instructions ${allocation.first} to ${allocation.last}`,
    maker ? `made by ${maker.op}` : "",
  ].filter(Boolean).join("\n");
}

/** The name inside a rectangle, if it fits. */
function bufferName(mark) {
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(mark.getAttribute(name)));
  const shown = clip(mark.about.name, (width - 8) / 7.4);
  if (height < 16 || shown.length < Math.min(mark.about.name.length, 6)) return [];
  return [draw("text", { class: "inside", x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, shown)];
}

function peakMarks(plot, x, y) {
  const { peak, live_bytes: live, lower_bound_bytes: bound } = facts.memory;
  const at = x(peak + 0.5);
  const said = `peak: ${bytesText(live[peak])} live at instruction ${peak}`;
  const middle = Math.min(Math.max(at, plot.left + said.length * 3.6), plot.width - said.length * 3.6);
  return [
    draw("line", { class: "alarm", x1: at, x2: at, y1: plot.top - 6, y2: plot.height - plot.bottom }),
    draw("line", { class: "alarm", x1: plot.left, x2: plot.width - plot.right, y1: y(bound), y2: y(bound), "stroke-dasharray": "6 4" }),
    draw("text", { class: "alarm", x: middle, y: plot.top - 11, "text-anchor": "middle" }, said),
  ];
}

function peakCard() {
  const { peak } = facts.memory;
  const there = facts.memory.allocations.filter((each) => each.first <= peak && peak <= each.last);
  there.sort((a, b) => b.bytes - a.bytes);
  const rows = there.map((each) => {
    const cells = [make("td", { class: "wide mono" }, each.name), make("td", { class: "mono wide" }, each.type), make("td", { class: "right" }, bytesText(each.bytes)), make("td", { class: "right" }, countText(each.address)), make("td", { class: "right" }, `${each.first} – ${each.last}`)];
    return choosable(make("tr", {}, ...cells), () => selectStep(each.maker));
  });
  const head = ["buffer", "type", "bytes", "address", "instructions"].map((name, place) => make("th", place > 1 ? { class: "right" } : {}, name));
  return make("section", { class: "card" }, make("h2", {}, `Live at the peak, instruction ${peak}`), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
}

function legendOf(kinds) {
  const shown = [...new Set(kinds)].filter((kind) => colourOf(kind) !== OTHER_COLOUR);
  const entries = shown.map((kind) => [kind, colourOf(kind)]);
  if (shown.length < new Set(kinds).size) entries.push(["other", OTHER_COLOUR]);
  return make("div", { class: "legend" }, ...entries.map(([kind, colour]) => {
    const box = make("i");
    box.style.background = colour;
    return make("span", {}, box, kind);
  }));
}

// Marks of drawings: tips, choice by pointer and by keys.

function walkMarks(svg, marks, choose) {
  let place = -1;
  for (const mark of marks) {
    mark.addEventListener("pointermove", (event) => showTip(event, mark.tip));
    mark.addEventListener("pointerleave", hideTip);
    mark.addEventListener("click", () => {
      place = marks.indexOf(mark);
      choose(mark);
    });
  }
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !marks.length) return;
    place = (place + step + marks.length) % marks.length;
    choose(marks[place]);
    const box = marks[place].getBoundingClientRect();
    showTip({ clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }, marks[place].tip);
    event.preventDefault();
  });
  svg.addEventListener("blur", hideTip);
}

function markChosen(mark, step) {
  const known = program && step !== null && step !== undefined;
  const index = firstStep + step;
  const chosen = known && selection.stage === program && selection.index === index;
  mark.classList.toggle("chosen", Boolean(chosen));
  mark.classList.toggle("linked", Boolean(known && !chosen && isLinked(program, index)));
}
