// What is stored as integers.

function buildQuantization() {
  const { products, integer_products: integers, values } = facts.quantization;
  const said = `${integers} of ${products} convolutions and matrix products compute in integers; ${values.length} values are stored as integers with one scale.`;
  const widest = values.reduce((most, each) => Math.max(most, each.high, -each.low), 0);
  const pictures = values.some((each) => each.picture);
  const about = pictures
    ? "Histograms are of the values that the profile observed, with logarithmic heights; what is clipped is red."
    : "Bars show the range that integers stand for. Histograms are there if the model was quantized by a profile: --precision int8 --profile FILE.";
  const rows = values.map((each) => {
    const cells = [
      make("td", { class: "wide mono" }, each.name),
      make("td", { class: "mono line" }, each.type),
      make("td", { class: "right" }, each.scale.toPrecision(4)),
      make("td", { class: "right" }, String(each.zero_point)),
      make("td", { class: "right" }, `${each.low.toPrecision(3)} to ${each.high.toPrecision(3)}`),
      make("td", {}, each.picture ? picture(each.picture) : rangeBar(each, widest)),
    ];
    return choosable(make("tr", {}, ...cells), () => selectValue(each));
  });
  const head = ["value", "type", "scale", "zero point", "range", ""].map((name, place) => make("th", { class: place > 1 && place < 5 ? "right" : "" }, name));
  return [make("section", { class: "card" }, make("h2", {}, "Quantization"), make("p", {}, said), make("p", { class: "soft" }, about), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))))];
}

function selectValue(value) {
  const stage = stageNamed("graph");
  const index = stage.nodes.findIndex((node) => node.name === value.name && node.line !== undefined);
  if (index >= 0) select(stage, index);
}

/** A drawing of numbers alone, as the compiler made it. */
function picture(text) {
  const drawing = new DOMParser().parseFromString(text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'), "image/svg+xml");
  return document.importNode(drawing.documentElement, true);
}

function rangeBar({ low, high }, widest) {
  const x = (value) => 96 + (94 * value) / (widest || 1);
  return draw("svg", { width: 192, height: 18 },
    draw("line", { class: "zero", x1: 96, x2: 96, y1: 0, y2: 18 }),
    draw("rect", { class: "bar", x: x(Math.min(low, 0)), y: 5, width: Math.max(x(high) - x(Math.min(low, 0)), 1), height: 8, rx: 2 }));
}
