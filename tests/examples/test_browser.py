"""The page that recognises digits: its module, its loader, itself in a browser if there is one."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from afterglow.cli.main import execute

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = EXAMPLES / "browser"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MOST_LINES = 110
IMAGES = 20

SCRIPT = """
import { readFileSync } from "node:fs";
import { load } from "./afterglow.js";
import { levels } from "./drawing.js";

const model = await load(readFileSync(process.argv[2]));
const images = JSON.parse(readFileSync(process.argv[3]));
const runs = images.map((image) => Array.from(model.run({ image }).probabilities));
const ink = new Uint8Array(64 * 64);
for (let y = 8; y < 56; y++) ink.fill(1, y * 64 + 28, y * 64 + 36);  // a stroke: the digit one
const drawn = Array.from(model.run({ image: levels(ink, 64) }).probabilities);
console.log(JSON.stringify({ runs, drawn }));
"""


WRONG = """
import { readFileSync } from "node:fs";
import { load } from "./afterglow.js";

const model = await load(readFileSync(process.argv[2]));
const said = (inputs) => {
  try {
    return Array.from(model.run(inputs).probabilities);
  } catch (error) {
    return error.message;
  }
};
const image = new Float32Array(64);
const wrong = [
  undefined,
  {},
  { picture: image },
  { image, more: image },
  { image: new Float32Array(63) },
  { image: new Float64Array(64) },
  { image: new Uint8Array(64) },
  { image: "zeros" },
  { image: null },
  { image: 3 },
  { image: new Array(64) },
  { image: new Array(64).fill("1") },
];
console.log(JSON.stringify(wrong.map(said)));
"""

REFUSALS = [
    *["input 'image' is missing"] * 2,
    "no input 'picture': there are image",
    "no input 'more': there are image",
    "input 'image' takes 64 elements (1 x 1 x 8 x 8), got 63",
    *["input 'image' takes a Float32Array or an array of numbers"] * 5,
    *["input 'image' takes elements of type number"] * 2,
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page's folder, with its model compiled."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("modules of WebAssembly are linked by ziglang from PyPI")
    folder = tmp_path_factory.mktemp("site") / "browser"
    shutil.copytree(PAGE, folder)
    model, build = str(EXAMPLES / "digits" / "digits.onnx"), str(folder / "build")
    words = ["compile", model, "-o", build, "--target", "wasm32", "--embed-weights", "--shared"]
    assert execute(words) == 0
    return folder


@pytest.fixture(scope="module")
def data():
    with np.load(EXAMPLES / "digits" / "test_images.npz") as stored:
        return stored["images"][:IMAGES].astype(np.float32), stored["probabilities"][:IMAGES]


def test_the_loader_is_short():
    assert len((PAGE / "afterglow.js").read_text().splitlines()) < MOST_LINES


def test_the_module_by_the_same_exports(site, data):
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime from PyPI runs it")
    engine = wasmtime.Engine()
    module = wasmtime.Module.from_file(engine, str(site / "build" / "digits.wasm"))
    assert not module.imports
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, module, []).exports(store)
    memory = exports["memory"]
    top = memory.data_len(store)
    memory.grow(store, 1)
    io, image, result, arena = top, top + 64, top + 512, top + 1024
    memory.write(store, np.array([image, result], np.uint32).tobytes(), io)
    for picture, wanted in zip(*data, strict=True):
        memory.write(store, picture.tobytes(), image)
        assert exports["digits_run"](store, io, arena) == 0
        got = np.frombuffer(memory.read(store, result, result + 40), np.float32)
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_the_loader_in_node(site, data, tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node, which runs JavaScript, is not here")
    images, wanted = data
    (site / "check.mjs").write_text(SCRIPT)
    (site / "package.json").write_text('{"type": "module"}')
    pictures = tmp_path / "images.json"
    pictures.write_text(json.dumps(images.reshape(IMAGES, -1).tolist()))
    command = ["node", site / "check.mjs", site / "build" / "digits.wasm", pictures]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed)
    np.testing.assert_allclose(found["runs"], wanted, atol=1e-5)
    assert int(np.argmax(found["drawn"])) == 1


def test_wrong_inputs_are_refused_and_nothing_is_computed(site):
    if shutil.which("node") is None:
        pytest.skip("node, which runs JavaScript, is not here")
    (site / "wrong.mjs").write_text(WRONG)
    (site / "package.json").write_text('{"type": "module"}')
    command = ["node", site / "wrong.mjs", site / "build" / "digits.wasm"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == REFUSALS


def test_the_page_in_a_browser(site):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("Chromium is not here")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
        command = [browser, *options, "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        server.shutdown()
    assert 'data-ready="yes"' in done.stdout
