// The roofline: speed over arithmetic intensity, a point for each instruction that multiplies.

function buildRoofline() {
  const { roofline } = facts;
  const timed = program.nodes.filter((node) => node.seconds);
  const points = timed.filter((node) => node.flops && node.bytes);
  const whole = timed.reduce((sum, node) => sum + node.seconds, 0) || 1;
  const shown = points.reduce((sum, node) => sum + node.seconds, 0);
  const threads = roofline.threads === 1 ? "one thread" : `${roofline.threads} threads`;
  const origin = roofline.measured ? `as measured on ${threads}` : "as the device states it, not measured";
  const said = `Operations a second over operations per byte, both by the definition of the op: an algorithm that needs fewer multiplications may lie above the roof. The roofs are the peak of products in f32 and the bandwidth of memory and caches, ${origin}. The area of a point is its time; those far below the roof with a large area are worth a look.`;
  const rest = `${countText(timed.length - points.length)} instructions without multiplications, ${percentText(1 - shown / whole)} of the time, have no place here.`;
  return [make("section", { class: "card" }, make("h2", {}, "Roofline"), make("p", { class: "soft" }, said), rooflinePlot(points, roofline, whole), legendOf(points.map(kindOf)), make("p", { class: "soft" }, rest))];
}

function rooflinePlot(points, { peak_flops: peak, levels }, whole) {
  const plot = { width: 1200, height: 560, left: 76, right: 20, top: 30, bottom: 48 };
  const intensities = points.map((node) => node.flops / node.bytes);
  const speeds = points.map((node) => node.flops / node.seconds);
  const ridges = levels.map(([, bandwidth]) => peak / bandwidth);
  const [x, xs] = logScale([...intensities, ...ridges], plot.left, plot.width - plot.right);
  const [y, ys] = logScale([...speeds, peak, peak * 1.5], plot.height - plot.bottom, plot.top);
  const svg = draw("svg", { class: "plot", viewBox: `0 0 ${plot.width} ${plot.height}`, tabindex: 0, role: "img", "aria-label": "Roofline: speed over intensity. Left and right go from point to point." });
  svg.append(...logAxes(plot, x, xs, y, ys), ...roofs(plot, x, xs, y, ys, peak, levels));
  const marks = points.map((node, place) => {
    const radius = 4 + 26 * Math.sqrt(node.seconds / whole);
    const mark = draw("circle", { class: "mark", cx: x(intensities[place]).toFixed(1), cy: y(speeds[place]).toFixed(1), r: radius.toFixed(1), fill: colourOf(kindOf(node)), "fill-opacity": 0.75 });
    mark.about = node;
    mark.tip = [`${node.kernel}`, `${(speeds[place] / 1e9).toFixed(1)} GFLOP/s at ${intensities[place].toFixed(1)} FLOP per byte`, `${timeText(node.seconds)}, ${percentText(node.seconds / whole)}`, node.plan || ""].filter(Boolean).join("\n");
    return mark;
  });
  marks.sort((a, b) => Number(b.getAttribute("r")) - Number(a.getAttribute("r")));
  svg.append(...marks);
  walkMarks(svg, marks, (mark) => selectStep(mark.about.step));
  onSelect(() => marks.forEach((mark) => markChosen(mark, mark.about.step)));
  return svg;
}

/** A logarithmic scale that holds all values, and the powers of ten in it. */
function logScale(values, start, end) {
  const low = Math.floor(Math.log10(Math.min(...values)) - 0.1);
  const high = Math.ceil(Math.log10(Math.max(...values)) + 0.05);
  const scale = (value) => start + ((end - start) * (Math.log10(value) - low)) / (high - low);
  return [scale, Array.from({ length: high - low + 1 }, (_, place) => 10 ** (low + place))];
}

function logAxes(plot, x, xs, y, ys) {
  const parts = [];
  for (const value of xs) {
    parts.push(draw("line", { class: "grid", x1: x(value), x2: x(value), y1: plot.top, y2: plot.height - plot.bottom }));
    parts.push(draw("text", { x: x(value), y: plot.height - plot.bottom + 18, "text-anchor": "middle" }, numberText(value)));
  }
  for (const value of ys) {
    parts.push(draw("line", { class: "grid", x1: plot.left, x2: plot.width - plot.right, y1: y(value), y2: y(value) }));
    parts.push(draw("text", { x: plot.left - 8, y: y(value) + 4, "text-anchor": "end" }, numberText(value / 1e9)));
  }
  parts.push(draw("text", { x: (plot.left + plot.width) / 2, y: plot.height - 8, "text-anchor": "middle" }, "FLOP per byte"));
  parts.push(draw("text", { x: plot.left, y: plot.top - 14 }, "GFLOP/s"));
  return parts;
}

function numberText(value) {
  return value >= 0.001 && value < 1e6 ? String(Number(value.toPrecision(3))) : value.toExponential(0);
}

/** The peak, and a diagonal for the bandwidth of the largest and of the smallest level of memory. */
function roofs(plot, x, xs, y, ys, peak, levels) {
  const [least, most, floor] = [xs[0], xs[xs.length - 1], ys[0]];
  const parts = [];
  const shown = levels.length > 1 ? [levels[levels.length - 1], levels[0]] : levels;
  shown.forEach(([nbytes, bandwidth], place) => {
    const start = Math.max(least, floor / bandwidth);
    const ridge = Math.min(peak / bandwidth, most);
    const name = place ? `cache of ${bytesText(nbytes)}` : "memory";
    parts.push(draw("path", { class: place ? "roof lower" : "roof", d: `M${x(start)} ${y(start * bandwidth)}L${x(ridge)} ${y(ridge * bandwidth)}` }));
    const at = Math.sqrt(start * ridge);
    const slope = (Math.atan2(y(ridge * bandwidth) - y(start * bandwidth), x(ridge) - x(start)) * 180) / Math.PI;
    parts.push(draw("text", { class: "strong", "text-anchor": "middle", transform: `translate(${x(at)} ${y(at * bandwidth) - 6}) rotate(${slope})` }, `${name}: ${(bandwidth / 1e9).toFixed(1)} GB/s`));
  });
  const first = Math.min(...shown.map(([, bandwidth]) => peak / bandwidth));
  parts.push(draw("path", { class: "roof", d: `M${x(Math.max(first, least))} ${y(peak)}H${plot.width - plot.right}` }));
  parts.push(draw("text", { class: "strong", x: plot.width - plot.right, y: y(peak) - 7, "text-anchor": "end" }, `peak: ${(peak / 1e9).toFixed(1)} GFLOP/s`));
  return parts;
}
