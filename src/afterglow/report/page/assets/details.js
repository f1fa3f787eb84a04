// The panel that says all about the selected node.

const MOST_LINKS = 12;

function showDetails() {
  const panel = byId("details");
  panel.replaceChildren();
  const { stage, index } = selection;
  if (stage === null) {
    panel.append(
      make("h2", {}, "Nothing selected"),
      make("p", { class: "soft" }, "Click a node, an instruction, a buffer or a row to see all about it here, and what became of it in the other stages."),
      make("section", {}, make("h3", {}, "Keys"), keyList()),
    );
    return;
  }
  const node = stage.nodes[index];
  panel.append(
    make("h2", {}, node.name),
    make("p", {}, make("span", { class: "chip" }, node.op), " ", make("span", { class: "soft" }, stage.title)),
    section("Type", make("code", {}, node.type)),
  );
  if (node.origins.length) panel.append(section("Nodes of the model", ...node.origins.map(originLink)));
  if (node.step !== undefined) panel.append(...instructionParts(node));
  else panel.append(...timePart(stage, node));
  panel.append(...stageParts(stage, node));
  if (node.line !== undefined) {
    const lines = stage.lines.slice(node.line, node.line + (node.lines || 1));
    panel.append(section("Text", make("pre", {}, lines.map((line) => line.slice(2)).join("\n"))));
  }
}

function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

function keyList() {
  const keys = [["/", "search"], ["Enter", "next match"], ["arrows", "move along the graph"], ["+ - 0", "zoom, fit"], ["1 … 9", "views"], ["Esc", "clear"]];
  const rows = keys.flatMap(([key, text]) => [make("dt", {}, make("code", {}, key)), make("dd", {}, text)]);
  return make("dl", { class: "facts" }, ...rows);
}

function originLink(origin) {
  return link(facts.origins[origin], "", () => selectOrigin(origin));
}

function link(text, more, follow) {
  const rest = more ? make("small", {}, ` ${more}`) : null;
  return make("button", { type: "button", class: "link", onclick: follow }, text, rest);
}

function factList(pairs) {
  const rows = pairs.filter(([, text]) => text !== null && text !== undefined && text !== "");
  return make("dl", { class: "facts" }, ...rows.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
}

function instructionParts(node) {
  const seconds = node.seconds;
  const total = facts.times ? facts.times.seconds : 0;
  const rate = seconds && node.flops ? `${(node.flops / seconds / 1e9).toFixed(1)} GFLOP/s` : "";
  const bandwidth = seconds && node.bytes ? `${(node.bytes / seconds / 1e9).toFixed(1)} GB/s` : "";
  const about = factList([
    ["instruction", String(node.step)],
    ["kernel", node.kernel],
    ["plan", node.plan],
    ["runs on", node.on_host ? "the host" : ""],
    ["time", seconds === undefined ? "" : `${timeText(seconds)}, ${percentText(seconds / (total || 1))}`],
    ["expected", node.expected === undefined ? "" : timeText(node.expected)],
    ["operations", node.flops ? `${countText(node.flops)} FLOP` : ""],
    ["speed", rate],
    ["moves", `${bytesText(node.bytes)}${bandwidth ? `, ${bandwidth}` : ""}`],
    ["workspace", node.workspace_bytes ? bytesText(node.workspace_bytes) : ""],
  ]);
  const parts = [section("Kernel", about)];
  if (node.choice !== undefined) parts.push(section("Kernel plans, the chosen one first", planTable(facts.choices[node.choice])));
  if (node.buffers.length) parts.push(section("Memory", bufferTable(node.buffers)));
  return parts;
}

function planTable(choice) {
  const rows = choice.candidates.map((each, place) =>
    make("tr", place ? {} : { class: "chosen" }, make("td", { class: "wide" }, each.plan), make("td", { class: "right" }, `${(each.cost / 1e6).toFixed(2)}`)));
  const head = make("tr", {}, make("th", {}, "plan"), make("th", { class: "right" }, "estimate, MFLOP"));
  const more = choice.count > choice.candidates.length ? make("p", { class: "soft" }, `and ${choice.count - choice.candidates.length} more`) : null;
  return make("div", {}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)), more);
}

function bufferTable(buffers) {
  const rows = buffers.map(([access, name, region, address]) =>
    make("tr", {}, make("td", {}, access), make("td", { class: "wide mono" }, name), make("td", { class: "right" }, address === null ? region : `at ${countText(address)}`)));
  const head = make("tr", {}, make("th", {}, "access"), make("th", {}, "buffer"), make("th", { class: "right" }, "where"));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

function timePart(stage, node) {
  const seconds = secondsOf(stage, node);
  if (seconds === undefined) return [];
  const share = percentText(seconds / (facts.times.seconds || 1));
  return [section("Time of its nodes of the model", make("p", {}, seconds ? `${timeText(seconds)}, ${share}` : "none of its own: it is fused or gone"))];
}

/** What became of the node in each other stage. */
function stageParts(stage, node) {
  if (!node.origins.length) return [];
  return stages.filter((other) => other !== stage).map((other) => {
    const linked = linkedNodes(other, node.origins);
    const links = linked.slice(0, MOST_LINKS).map((index) =>
      link(other.nodes[index].name, other.nodes[index].op, () => select(other, index)));
    if (linked.length > MOST_LINKS) links.push(make("p", { class: "soft" }, `and ${linked.length - MOST_LINKS} more`));
    if (!linked.length) links.push(make("p", { class: "soft" }, "nothing"));
    return section(`In stage ${other.title.toLowerCase()}`, ...links);
  });
}

onSelect(showDetails);
