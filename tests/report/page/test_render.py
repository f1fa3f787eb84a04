from __future__ import annotations

import json
import re

from afterglow.report.page.render import SCRIPTS, embedded_json, report_page

EMPTY = {
    "model": "m",
    "facts": [],
    "inputs": [],
    "outputs": [],
    "missing": [],
    "origins": [],
    "stages": [],
}


def test_json_in_a_page_is_the_same_data():
    data = {"a": "</script><!--<script>&amp; \u2028 \u2029 ü 😀 {{script}}", "b": [1, 2.5, None]}
    assert json.loads(embedded_json(data)) == data


def test_nothing_in_the_data_ends_the_script_element():
    text = embedded_json({"</SCRIPT>": "<!-- \u2028"})
    assert not re.search("[<>&\u2028\u2029]", text)


def test_a_hostile_name_stays_data():
    name = "</script><script>alert(1)</script>{{style}}{{script}}"
    page = report_page({**EMPTY, "model": name})
    assert page.lower().count("</script>") == 2
    assert "<script>alert" not in page
    assert page.count('"use strict"') == 1


def test_the_page_needs_no_other_file_and_no_network():
    page = report_page(EMPTY)
    assert {*re.findall(r"https?://[^\s\"'`)]+", page)} <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<link|\ssrc=|@import|url\(|fetch\(|XMLHttpRequest|import\(", page)
    assert "default-src 'none'" in page


def test_scripts_are_small_and_each_is_used():
    page = report_page(EMPTY)
    for name in SCRIPTS:
        assert name.endswith(".js")
    assert len(page) < 80_000
