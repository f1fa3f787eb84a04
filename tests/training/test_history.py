from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from afterglow.support.errors import UsageError
from afterglow.training.history import Epoch, History

FIRST = Epoch(1, 10, 2.0, 0.1, 0.5, 320, {"accuracy": 0.5}, 1.5, {"accuracy": 0.625})
SECOND = Epoch(2, 10, 1.0, 0.05, 0.25, 320, {"accuracy": 0.75}, 1.25, {"accuracy": 0.875})
RUN = History([FIRST, SECOND])


def test_an_epoch_is_one_line():
    assert str(FIRST) == (
        "epoch 1: loss 2, accuracy 0.5, val_loss 1.5, val_accuracy 0.625, lr 0.1, "
        "500.0 ms, 640 samples/s"
    )


def test_a_history_prints_as_a_table():
    assert [line.split() for line in str(RUN).splitlines()] == [
        [*RUN.columns[:-2], "time", "samples/s"],
        ["─" * (len(str(RUN).splitlines()[1]))],
        ["1", "10", "2", "0.5", "1.5", "0.625", "0.1", "500.0", "ms", "640"],
        ["2", "10", "1", "0.75", "1.25", "0.875", "0.05", "250.0", "ms", "1,280"],
    ]


def test_columns_are_found_by_name():
    assert RUN["val_accuracy"] == [0.625, 0.875]
    assert RUN[-1] is SECOND
    with pytest.raises(UsageError) as caught:
        RUN["acuracy"]
    assert str(caught.value) == (
        "error: the history has no column 'acuracy'\n  help: it has epoch, steps, loss, accuracy, "
        "val_loss, val_accuracy, lr, seconds, samples_per_second"
    )


def test_files_hold_all_columns(tmp_path):
    RUN.csv(tmp_path / "h.csv")
    RUN.json(tmp_path / "h.json")
    first, *rows = (tmp_path / "h.csv").read_text().splitlines()
    assert first.split(",") == RUN.columns
    assert rows[1] == "2,10,1.0,0.75,1.25,0.875,0.05,0.25,1280.0"
    assert json.loads((tmp_path / "h.json").read_text())["epochs"][0] == FIRST.row


def test_the_picture_has_a_panel_for_each_number_and_a_curve_for_each_data(tmp_path):
    RUN.plot(tmp_path / "h.svg")
    picture = ET.parse(tmp_path / "h.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    panels = picture.findall(f"{svg}g")
    assert [panel.find(f"{svg}text").text for panel in panels] == ["loss", "accuracy"]
    assert all(len(panel.findall(f"{svg}polyline")) == 2 for panel in panels)
    texts = [text.text for text in panels[0].findall(f"{svg}text")]
    assert {"1", "2", "epoch", "loss", "val_loss", "1.8"} <= {*texts}
    assert "prefers-color-scheme: dark" in picture.find(f"{svg}style").text


@pytest.mark.parametrize(
    "run", [History(), History([Epoch(1, 1, float("nan"), 0.1, 0, 1)]), History([FIRST])]
)
def test_every_history_has_a_picture(run):
    ET.fromstring(run.plot())
    assert "<table>" in run._repr_html_()


def test_data_makes_the_same_history():
    stopped = History([FIRST, SECOND], "stopped early")
    assert History.of_data(json.loads(json.dumps(stopped.data()))) == stopped
