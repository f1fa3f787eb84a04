// A model on several devices: who computes what, when, and what crosses.

function buildPartitions() {
  const plan = facts.partition;
  const sent = plan.transfers.reduce((sum, each) => sum + each.nbytes, 0);
  const said = `Placed for ${plan.objective}: ${timeText(plan.seconds)} a run expected; ${plan.transfers.length} transfers, ${bytesText(sent)}.`;
  return [
    make("section", { class: "card" }, make("h2", {}, "One run"), make("p", { class: "soft" }, said), partitionPlot(plan)),
    tableCard("Devices", ["device", "tasks", "busy", "memory", "alone"], plan.devices.filter((each) => each.computes).map((each) => [each.name, String(each.tasks), timeText(each.seconds), bytesText(each.nbytes), each.alone === null ? "cannot" : timeText(each.alone)])),
    tableCard("Tasks, in the order of the model", ["task", "nodes", "device", "time", "why"], plan.tasks.map((each) => [each.name, String(each.nodes.length), each.device, timeText(each.seconds), each.reason]), (place) => selectOrigin(originNumbers.get(plan.tasks[place].nodes[0]))),
    tableCard("Values that cross", ["value", "from", "to", "size", "time"], plan.transfers.map((each) => [each.value, each.source, each.to, bytesText(each.nbytes), timeText(each.seconds)])),
  ];
}

function partitionPlot(plan) {
  const row = 60;
  const plot = { width: 1200, left: 110, right: 20, top: 12, height: 24 + row * plan.devices.length };
  const rows = new Map(plan.devices.map((device, place) => [device.name, plot.top + row * place]));
  const x = (seconds) => plot.left + ((plot.width - plot.left - plot.right) * seconds) / (plan.seconds || 1);
  const svg = draw("svg", { class: "plot", viewBox: `0 0 ${plot.width} ${plot.height}`, tabindex: 0, role: "img", "aria-label": "Devices over time. Left and right go from task to task." });
  for (const [name, top] of rows) {
    svg.append(draw("line", { class: "grid", x1: plot.left, x2: plot.width - plot.right, y1: top + 36, y2: top + 36 }));
    svg.append(draw("text", { class: "strong", x: plot.left - 10, y: top + 22, "text-anchor": "end" }, name));
  }
  const names = [...rows.keys()];
  const tasks = plan.tasks.map((task) => {
    const mark = draw("rect", { class: "mark", x: x(task.start), y: rows.get(task.device), width: Math.max(x(task.start + task.seconds) - x(task.start), 1), height: 36, fill: COLOURS[names.indexOf(task.device) % COLOURS.length] });
    mark.about = task;
    mark.tip = `${task.name}: ${timeText(task.seconds)}\n${task.nodes.length} nodes on ${task.device}\n${task.reason}`;
    return mark;
  });
  const crossings = plan.transfers.map((each) => {
    const [from, to] = [rows.get(each.source), rows.get(each.to)];
    return draw("line", { class: "alarm", x1: x(each.start), y1: from < to ? from + 36 : from, x2: x(each.start + each.seconds), y2: from < to ? to : to + 36 });
  });
  svg.append(...tasks, ...crossings);
  walkMarks(svg, tasks, (mark) => selectOrigin(originNumbers.get(mark.about.nodes[0])));
  return svg;
}

function tableCard(title, heads, rows, choose) {
  const lines = rows.map((cells, place) => {
    const line = make("tr", {}, ...cells.map((cell) => make("td", { class: "wide" }, cell)));
    return choose ? choosable(line, () => choose(place)) : line;
  });
  const head = make("tr", {}, ...heads.map((name) => make("th", {}, name)));
  return make("section", { class: "card" }, make("h2", {}, title), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines))));
}
