"""What holds for all tests of the PyTorch front end."""

import logging

import pytest


@pytest.fixture(autouse=True, scope="session")
def _no_traces():
    """PyTorch writes what it traces to a log as soon as anyone listens, which takes long."""
    logging.getLogger("torch.__trace").setLevel(logging.CRITICAL)
