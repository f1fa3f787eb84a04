// Times by kernel and by node of the model, as tables that can be sorted.

const MOST_ROWS = 200;

function buildTimes() {
  const { times } = facts;
  const kernels = sortableTable(
    [["kernel", (row) => row.kernel], ["instructions", (row) => row.steps], ["time", (row) => row.seconds, timeText], ["share", (row) => row.seconds / (times.seconds || 1), percentText], ["", (row) => row.seconds, shareCell], ["GFLOP/s", (row) => (row.flops && row.seconds ? row.flops / row.seconds / 1e9 : 0), rateText], ["GB/s", (row) => (row.bytes && row.seconds ? row.bytes / row.seconds / 1e9 : 0), rateText]],
    times.kernels,
    program ? (row) => selectStep(program.nodes.find((node) => node.kernel === row.kernel).step) : null,
  );
  const nodes = sortableTable(
    [["node", (row) => row.node || "(no name)"], ["time", (row) => row.seconds, timeText], ["share", (row) => row.seconds / (times.seconds || 1), percentText], ["", (row) => row.seconds, shareCell], ["kernels", (row) => row.kernels.join(", ")]],
    times.nodes,
    stages.length ? (row) => selectOrigin(originNumbers.get(row.node)) : null,
  );
  const note = "Where a kernel computes several nodes, its time is shared by their multiplications: what is fused into a product counts nothing. Without any, all ops count alike, as do nodes that became one op.";
  return [
    make("section", { class: "card" }, make("h2", {}, "Time"), make("p", {}, sumText(times))),
    make("section", { class: "card" }, make("h2", {}, "By kernel"), make("div", { class: "scroll" }, kernels)),
    make("section", { class: "card" }, make("h2", {}, "By node of the model"), make("p", { class: "soft" }, note), make("div", { class: "scroll" }, nodes)),
  ];
}

function sumText(times) {
  const sum = `Instructions, each timed by itself, add up to ${timeText(times.seconds)}`;
  if (!times.run_seconds) return `${sum}.`;
  const threads = times.threads === 1 ? "one thread" : `${times.threads} threads`;
  return `${sum}, ${percentText(times.seconds / times.run_seconds)} of the fastest of ${times.runs} whole runs on ${threads}, ${timeText(times.run_seconds)} (median ${timeText(times.median_seconds)}).`;
}

function rateText(rate) {
  return rate ? rate.toFixed(1) : "";
}

function shareCell(seconds, rows) {
  const most = rows.reduce((found, row) => Math.max(found, row.seconds), 0);
  return shareBar(seconds / (most || 1));
}

function shareBar(share) {
  const bar = make("i");
  bar.style.width = `${(share * 100).toFixed(1)}%`;
  return make("span", { class: "share" }, bar);
}

/** A table: columns are a name, what a row has there, and how that is shown; click a head to sort. */
function sortableTable(columns, rows, choose) {
  const body = make("tbody");
  let shown = MOST_ROWS;
  let order = [...rows];
  const right = (row, value) => typeof value(row) === "number";
  const show = () => {
    body.replaceChildren(...order.slice(0, shown).map((row) => {
      const cells = columns.map(([name, value, text]) => make("td", { class: right(row, value) && name ? "right" : "wide mono" }, text ? text(value(row), rows) : String(value(row))));
      const line = make("tr", {}, ...cells);
      return choose ? choosable(line, () => choose(row)) : line;
    }));
    if (order.length > shown) {
      const more = make("button", { type: "button", onclick: () => { shown = order.length; show(); } }, `Show all ${countText(order.length)}`);
      body.append(make("tr", {}, make("td", { colspan: columns.length }, more)));
    }
  };
  const heads = columns.map(([name, value]) => {
    if (!name) return make("th");
    const head = make("th", { class: rows.length && right(rows[0], value) ? "right" : "" }, make("button", { type: "button", onclick: () => sort(head, value) }, name));
    return head;
  });
  const sort = (head, value) => {
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    order = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
    show();
  };
  show();
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
}
