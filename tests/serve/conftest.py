from __future__ import annotations

import io

import pytest

from afterglow.serve.config import read_config
from afterglow.serve.logs import Log
from afterglow.serve.server import Server
from tests.serve.models import save_all


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server with all models, which tests do not change."""
    folder = tmp_path_factory.mktemp("served")
    save_all(folder)
    flags = {"models": folder, "http_port": 0, "grpc_port": 0, "shared_memory": True}
    flags |= {"versions": "all", "max_body": 1 << 20, "instances": 2, "threads": 1}
    with Server(read_config(None, flags), Log(io.StringIO())) as made:
        yield made


@pytest.fixture
def serving(tmp_path):
    """Makes servers of the test's own folder, and ends them."""
    made = []

    def make(**flags):
        given = {"models": tmp_path, "http_port": 0, "grpc_port": -1, "instances": 1, "threads": 1}
        config = read_config(None, given | flags)
        made.append(Server(config, Log(io.StringIO())))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.stop()
