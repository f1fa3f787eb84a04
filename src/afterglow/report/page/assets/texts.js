// The texts of two stages side by side: a click on a line finds what it became in the other.

const LINE_HEIGHT = 18;

function buildTexts() {
  const named = (name) => Math.max(stages.findIndex((stage) => stage.name === name), 0);
  const right = program ? stages.indexOf(program) : stages.length - 1;
  const panes = [named("import"), right].map(buildPane);
  onSelect(() => panes.forEach((pane) => pane.mark()));
  return [make("div", { class: "panes" }, ...panes.map((pane) => pane.element))];
}

function buildPane(first) {
  const list = make("ol", { tabindex: 0 });
  const choice = make("select", { "aria-label": "Stage", onchange: () => show(stages[choice.selectedIndex]) }, ...stages.map((stage) => make("option", {}, stage.title)));
  const linked = make("span", { class: "soft", role: "status" });
  let stage = null;
  let marked = [];
  const show = (wanted) => {
    stage = wanted;
    choice.selectedIndex = stages.indexOf(stage);
    list.setAttribute("aria-label", `Text of stage ${stage.title}`);
    list.replaceChildren(...stage.lines.map((text, line) => make("li", { "data-line": line + 1, class: stage.nodeOfLine.has(line) ? "node" : "" }, text || " ")));
    setTimeout(() => {
      const first = Math.min(...stage.nodeOfLine.keys());
      if (Number.isFinite(first)) list.scrollTop = Math.max(first - 3, 0) * LINE_HEIGHT;
      mark();
    });
  };
  const mark = () => {
    for (const line of marked) line.classList.remove("linked", "chosen");
    marked = [];
    const nodes = selection.stage === stage ? [selection.index, ...linkedNodes(stage, selection.origins)] : selection.stage ? linkedNodes(stage, selection.origins) : [];
    for (const index of new Set(nodes)) {
      const node = stage.nodes[index];
      for (let line = node.line; node.line !== undefined && line < node.line + (node.lines || 1); line++) {
        const item = list.children[line];
        item.classList.add(selection.stage === stage && index === selection.index ? "chosen" : "linked");
        marked.push(item);
      }
    }
    linked.textContent = selection.stage ? `${countText(marked.length)} lines linked` : "";
    if (marked.length) bringIntoSight(list, marked[0]);
  };
  list.addEventListener("click", (event) => {
    const line = event.target.closest("li");
    const index = line ? stage.nodeOfLine.get(Number(line.dataset.line) - 1) : undefined;
    if (index !== undefined) select(stage, index);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const lines = [...stage.nodeOfLine.entries()].sort((a, b) => a[0] - b[0]).map(([, index]) => index);
    if (!step || !lines.length) return;
    const now = selection.stage === stage ? lines.indexOf(selection.index) : -1;
    let next = now + step;
    while (lines[next] === selection.index && selection.stage === stage) next += step;
    if (lines[next] !== undefined) select(stage, lines[next]);
    event.preventDefault();
  });
  show(stages[first]);
  return { element: make("div", { class: "pane" }, make("div", { class: "tools" }, choice, linked), list), mark };
}

function bringIntoSight(list, line) {
  const top = line.offsetTop - list.offsetTop;
  if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - 40) list.scrollTop = top - list.clientHeight / 3;
}
