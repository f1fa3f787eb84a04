"""The Caffe2 front end, as the registry knows it: it imports the rest when a net is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.caffe2.looks import is_net
from afterglow.frontends.content import Content
from afterglow.frontends.definition.dialect import Dialect


class Caffe2FrontEnd:
    """Opens Caffe2 nets: a folder, the file of a net, or a pair of init net and predict net."""

    name = "caffe2"
    reads = "Caffe2"

    @property
    def dialect(self) -> Dialect:
        """The table of Caffe2's operators, which nothing needs before there is such a net."""
        from afterglow.frontends.caffe2.importers import CAFFE2  # noqa: PLC0415

        return CAFFE2

    def opens(self, source: Any) -> Source | None:
        """A source that reads both nets once."""
        match source:
            case Content(is_folder=False) if not is_net(source):
                return None
            case Content():
                given = [source]
            case (str() | Path() | bytes() as init, str() | Path() | bytes() as predict):
                given = [Content.of(init), Content.of(predict)]
                if not any(map(is_net, given)):
                    return None
            case _:
                return None
        from afterglow.frontends.caffe2.source import open_nets  # noqa: PLC0415

        return open_nets(*given)
