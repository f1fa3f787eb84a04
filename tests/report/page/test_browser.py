"""Clicks through a report in a browser; all tests look at what one run of the script found."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.report.page import collect
from afterglow.report.page.collect import collect_report
from afterglow.report.page.render import report_page
from afterglow.runtime.rates import MemoryLevel, Rates
from tests.cli import models
from tests.report.page.browser import browser, run_in_page

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
RATES = Rates(flops=1e11, levels=(MemoryLevel(1 << 18, 5e10), MemoryLevel(1 << 30, 1e10)))

SCRIPT = """
found.tabs = all("[role=tab]").map((tab) => tab.textContent);
found.title = document.title;
found.facts = text("#view-overview .facts");
found.slowest = all("#view-overview .share").length;

one("#tab-graph").click();
await wait();
found.stages = all("#view-graph .group button").map((each) => each.textContent).slice(0, 5);
const search = one("#search");
type(search, "conv");
found.matches = text("#matches");
press("Enter", search);
await wait();
found.first = text("#details h2");
found.position = text("#matches");
press("Enter", search);
await wait();
found.second = text("#details h2");
found.details = all("#details h3").map((each) => each.textContent);

const canvas = one("canvas.main");
const box = canvas.getBoundingClientRect();
all("#view-graph .group button").find((each) => each.textContent === "Instructions").click();
await wait();
found.kept = text("#details h2");
pointer(canvas, "pointerdown", box.x + box.width / 2, box.y + box.height / 2);
pointer(canvas, "pointerup", box.x + box.width / 2, box.y + box.height / 2);
await wait();
found.linked = text("#details");
canvas.focus();
press("ArrowDown", canvas);
await wait();
found.below = text("#details .chip");
press("ArrowUp", canvas);
await wait();
found.above = text("#details .chip");
const before = canvas.toDataURL();
const turn = { deltaY: -300, clientX: box.x + 9, clientY: box.y + 9, cancelable: true };
canvas.dispatchEvent(new WheelEvent("wheel", turn));
for (let tries = 0; tries < 50 && canvas.toDataURL() === before; tries++) await wait();
found.zoomed = canvas.toDataURL() !== before;
pointer(canvas, "pointerdown", box.x + 200, box.y + 200);
pointer(canvas, "pointermove", box.x + 260, box.y + 240);
pointer(canvas, "pointerup", box.x + 260, box.y + 240);
await wait();
found.dragged = text("#details .chip");
one("[aria-label='Zoom in']").click();
all("#view-graph .tools button").find((each) => each.textContent === "Fit").click();
await wait();
press("Escape", document.body);
await wait();
found.cleared = text("#details h2");

one("#tab-memory").click();
await wait();
found.buffers = all("#view-memory rect.mark").length;
found.peak = all("#view-memory text.alarm").map((each) => each.textContent);
one("#view-memory rect.mark").dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
found.tip = text("#tip");
one("#view-memory rect.mark").dispatchEvent(new MouseEvent("click", { bubbles: true }));
await wait();
found.instruction = text("#details");
found.marked = all("#view-memory rect.chosen").length;
one("#view-memory svg").focus();
press("ArrowRight", one("#view-memory svg"));
found.walked = text("#details h2");

one("#tab-roofline").click();
await wait();
found.points = all("#view-roofline circle").length;
found.roofs = all("#view-roofline text.strong").map((each) => each.textContent);
all("#view-roofline circle")[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
await wait();
found.point = text("#details");

one("#tab-time").click();
await wait();
const kernels = () => all("#view-time table")[0];
found.sum = text("#view-time p");
const rows = () => [...kernels().tBodies[0].rows].map((row) => row.cells[0].textContent);
found.by_time = rows();
kernels().querySelector("th button").click();
found.by_name = rows();
found.sorted = kernels().querySelector("th").getAttribute("aria-sort");
kernels().querySelector("tbody tr").click();
await wait();
found.kernel = text("#details");
all("#view-time table")[1].querySelector("tbody tr").click();
await wait();
found.node = all("#details .link").map((each) => each.textContent);

one("#tab-text").click();
await wait(60);
const panes = all(".pane ol");
all(".pane:first-child li.node").find((line) => line.textContent.includes("max_pool(")).click();
await wait();
found.chosen_lines = panes[0].querySelectorAll("li.chosen").length;
found.linked_lines = [...panes[1].querySelectorAll("li.linked")].map((line) => line.textContent);

const theme = () => document.documentElement.dataset.theme;
const first = theme();
one("#theme").click();
found.themes = [first, theme()];
found.page_colour = getComputedStyle(document.body).backgroundColor;

press("/", document.body);
await wait();
found.search_focused = document.activeElement.id;
press("Escape", document.activeElement);
found.blurred = document.activeElement.id !== "search";
press("1", document.body);
found.first_view = one("#tab-overview").getAttribute("aria-selected");
one("#tab-overview").focus();
press("ArrowRight", one("#tab-overview"));
found.next_tab = document.activeElement.id;
found.unlabelled = all("canvas.main, svg.plot, input, select, #tabs button, aside")
  .filter((each) => !each.getAttribute("aria-label") && !each.textContent && !each.labels)
  .length;
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    browser()
    options = Options(threads=1, shapes={"image": (1, 1, 8, 8)})
    feed = {"image": models.np.ones((1, 1, 8, 8), models.np.float32)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "rates_of", lambda device, cache: RATES)
        patch.setattr(collect, "RUN_SECONDS", 0.01)
        report = collect_report("digits.onnx", open_source(str(DIGITS)), options, feed, 2)
    return run_in_page(report_page(report.data()), SCRIPT, tmp_path_factory.mktemp("page"))


def test_nothing_goes_wrong(found):
    assert found["problems"] == []


def test_there_is_a_view_for_each_section(found):
    assert found["tabs"] == ["Overview", "Graph", "Memory", "Roofline", "Time", "Text"]
    assert found["title"] == "digits.onnx – Afterglow report"  # noqa: RUF001  a dash
    assert "measured time" in found["facts"]
    assert found["slowest"] > 3


def test_the_graph_can_be_searched_at_each_stage(found):
    assert found["stages"] == ["Model", "Import", "Optimised", "Lowered", "Instructions"]
    assert found["matches"].endswith(" found")
    assert found["position"].startswith("1 of ")
    assert found["first"] != found["second"]
    assert {"Type", "Nodes of the model", "Time of its nodes of the model", "Text"} <= {
        *found["details"]
    }


def test_a_node_stays_selected_when_the_stage_changes(found):
    assert found["kept"] == found["second"]
    assert "Kernel plans, the chosen one first" in found["linked"]
    assert found["second"] in found["linked"]


def test_arrow_keys_walk_along_the_graph_and_escape_ends_it(found):
    assert found["below"] != found["above"]
    assert found["zoomed"]
    assert found["dragged"] == found["above"]
    assert found["cleared"] == "Nothing selected"


def test_buffers_lead_to_their_instructions(found):
    assert found["buffers"] > 5
    assert any(text.startswith("peak: ") for text in found["peak"])
    assert "made by" in found["tip"]
    assert "Kernel" in found["instruction"]
    assert found["marked"] >= 1
    assert found["walked"] not in ("", "Nothing selected")


def test_points_of_the_roofline_lead_to_their_instructions(found):
    assert found["points"] == 3
    assert found["roofs"] == [
        "memory: 10.0 GB/s",
        "cache of 256 KiB: 50.0 GB/s",
        "peak: 100.0 GFLOP/s",
    ]
    assert "GFLOP/s" in found["point"]


def test_tables_are_sorted_by_a_click(found):
    assert "of the fastest of" in found["sum"]
    assert sorted(found["by_time"], reverse=True) == found["by_name"]
    assert found["sorted"] == "descending"
    assert found["by_name"][0] in found["kernel"]
    assert found["node"]


def test_lines_are_linked_between_stages(found):
    assert found["chosen_lines"] == 1
    assert any("max_pool out" in line for line in found["linked_lines"])


def test_the_page_is_light_or_dark(found):
    assert found["themes"] == ["light", "dark"]
    assert found["page_colour"] == "rgb(18, 22, 28)"


def test_it_works_by_keyboard(found):
    assert found["search_focused"] == "search"
    assert found["blurred"]
    assert found["first_view"] == "true"
    assert found["next_tab"] == "tab-graph"
    assert found["unlabelled"] == 0


def test_hostile_names_are_shown_as_text(tmp_path):
    browser()
    name = '</script><img src=x onerror="window.hacked = 1">\u2028<b>'
    node = models.helper.make_node("Relu", ["x"], ["y"], name=name)
    declared = [("x", models.FLOAT, [2])], [("y", models.FLOAT, [2])]
    source = open_source(models.save(tmp_path / "hostile.onnx", [node], *declared))
    facts = collect_report(name, source, Options(), None, 1).data()
    assert name in facts["origins"]
    script = """
    for (const tab of all("[role=tab]")) { tab.click(); await wait(); }
    one("#tab-graph").click();
    await wait();
    type(one("#search"), "relu");
    press("Enter", one("#search"));
    await wait(100);
    found.images = all("img, #details b").length;
    found.hacked = window.hacked || 0;
    found.origin = text("#details .link");
    found.title = text("#title");
    """
    seen = run_in_page(report_page(facts), script, tmp_path)
    assert seen == {"images": 0, "hacked": 0, "origin": name, "title": name, "problems": []}
