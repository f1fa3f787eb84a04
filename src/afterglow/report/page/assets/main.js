// Tabs, theme, keys; the overview.

addView("overview", "Overview", buildOverview);
if (stages.length) addView("graph", "Graph", buildGraph, { full: true });
if (facts.memory) addView("memory", "Memory", buildMemory);
if (facts.roofline) addView("roofline", "Roofline", buildRoofline);
if (facts.times) addView("time", "Time", buildTimes);
if (facts.quantization) addView("quantization", "Quantization", buildQuantization);
if (facts.partition) addView("partitions", "Partitions", buildPartitions);
if (stages.length) addView("text", "Text", buildTexts, { full: true });

function buildOverview() {
  const parts = [make("section", { class: "card" }, make("h2", {}, facts.model), factList(facts.facts))];
  if (facts.missing.length) {
    parts.push(...facts.missing.map((sentence) => make("p", { class: "note" }, sentence)));
  }
  const cards = [portCard("Inputs", facts.inputs), portCard("Outputs", facts.outputs)];
  if (stages.length) cards.push(stageCard());
  if (facts.times) cards.push(slowestCard());
  return [...parts, make("div", { class: "cards" }, ...cards.filter(Boolean))];
}

function portCard(title, ports) {
  if (!ports.length) return null;
  const rows = ports.map(([name, type]) => make("tr", {}, make("td", { class: "wide mono" }, name), make("td", { class: "mono" }, type)));
  return make("section", { class: "card" }, make("h2", {}, title), make("table", {}, make("tbody", {}, ...rows)));
}

function stageCard() {
  const rows = stages.map((stage) => {
    const nodes = stage.nodes.filter((node) => node.line !== undefined).length;
    const what = stage === program ? "instructions" : "nodes";
    const row = make("tr", {}, make("td", {}, stage.title), make("td", { class: "right" }, `${countText(nodes)} ${what}`));
    return choosable(row, () => { openView("graph"); showStage(stage); });
  });
  return make("section", { class: "card" }, make("h2", {}, "Stages"), make("table", {}, make("tbody", {}, ...rows)));
}

function slowestCard() {
  const rows = facts.times.nodes.filter((row) => row.seconds).slice(0, 8).map((row) => {
    const cells = [make("td", { class: "wide mono" }, row.node || "(no name)"), make("td", {}, shareBar(row.seconds / (facts.times.nodes[0].seconds || 1))), make("td", { class: "right" }, timeText(row.seconds))];
    return choosable(make("tr", {}, ...cells), () => selectOrigin(originNumbers.get(row.node)));
  });
  return make("section", { class: "card" }, make("h2", {}, "Slowest nodes of the model"), make("table", {}, make("tbody", {}, ...rows)));
}

function openView(name) {
  for (const view of views) {
    const chosen = view.name === name;
    view.tab.setAttribute("aria-selected", chosen);
    view.tab.tabIndex = chosen ? 0 : -1;
    if (chosen && !view.built) {
      view.built = true;
      view.element.append(...view.build(view.element));
    }
    view.element.hidden = !chosen;
  }
  hideTip();
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
  dispatchEvent(new Event("resize"));
}

function buildTabs() {
  for (const view of views) {
    const id = `view-${view.name}`;
    view.tab = make("button", { type: "button", role: "tab", id: `tab-${view.name}`, "aria-controls": id, onclick: () => openView(view.name) }, view.title);
    view.element = make("section", { class: view.full ? "view full" : "view", role: "tabpanel", id, "aria-labelledby": `tab-${view.name}`, hidden: true });
    byId("tabs").append(view.tab);
    byId("views").append(view.element);
  }
  byId("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const now = views.findIndex((view) => view.tab === document.activeElement);
    const next = views[(now + step + views.length) % views.length];
    openView(next.name);
    next.tab.focus();
    event.preventDefault();
  });
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  dispatchEvent(new Event("themechange"));
}

function watchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "SELECT"].includes(document.activeElement.tagName);
  if (event.key === "Escape") {
    hideTip();
    if (typing) document.activeElement.blur();
    else select(null, null);
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && stages.length) {
    openView("graph");
    byId("search").focus();
    event.preventDefault();
  } else if (event.key >= "1" && event.key <= String(views.length)) {
    openView(views[Number(event.key) - 1].name);
  }
});

byId("title").textContent = facts.model;
buildTabs();
watchTheme();
showDetails();
openView((views.find((view) => `#${view.name}` === location.hash) || views[0]).name);
addEventListener("hashchange", () => {
  const asked = views.find((view) => `#${view.name}` === location.hash);
  if (asked) openView(asked.name);
});
