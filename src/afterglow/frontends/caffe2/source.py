"""Caffe2 models as sources: a folder, a file, or two of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from afterglow.frontends.base import FileDigests
from afterglow.frontends.caffe2.looks import is_net, is_text
from afterglow.frontends.caffe2.messages import Net
from afterglow.frontends.caffe2.text import read_text_net
from afterglow.frontends.caffe2.translate import translate_nets
from afterglow.frontends.caffe2.wire import read_binary_net
from afterglow.frontends.content import Content
from afterglow.frontends.definition.file_source import FileSource
from afterglow.frontends.formats import known_format, refusal
from afterglow.support.digest import digest_of_bytes, digest_of_texts

PREDICT = ("predict_net.pb", "predict_net.pbtxt", "model.pb")
INIT = ("init_net.pb", "init_net.pbtxt", "model_init.pb")
_VALUE_INFO = "value_info.json"
"""What a folder calls the files of a model."""
_WORDS = (("predict", "init"), ("pred", "init"), ("Predict", "Init"))
"""What is another word in the name of an init net."""


class Caffe2Source(FileSource):
    """A model of two nets."""

    def __init__(self, predict: Content, init: Content | None, info: Content | None = None) -> None:
        self._others = [content for content in (init, info) if content is not None]
        beside = [content.path.name for content in self._others if content.path is not None]
        filled = None if init is None else read_net(init)
        net = read_net(predict)
        with predict.located():
            model = translate_nets(filled, net, b"" if info is None else bytes(info.data))
        super().__init__(predict, model, beside)

    def digest(self, files: FileDigests) -> str | None:
        """That of its files; of bytes, both nets count."""
        paths = [content.path for content in (self.content, *self._others)]
        if all(path is None for path in paths):
            contents = (self.content, *self._others)
            return digest_of_texts([digest_of_bytes(content.data) for content in contents])
        folders = {None if path is None else path.parent for path in paths}
        return super().digest(files) if len(folders) == 1 else None


def read_net(content: Content) -> Net:
    """A net, binary or text; an error says what it is if it is something else."""
    other = None if is_net(content) or not content.data else known_format(content)
    if other is not None:
        raise refusal(content, "Caffe2")
    with content.located():
        return (read_text_net if is_text(content) else read_binary_net)(content.data)


def open_nets(first: Content, second: Content | None = None) -> Caffe2Source | None:
    """The model in a folder, of a net and what lies beside it, or of two nets."""
    if second is not None:
        return open_pair(first, second)
    return open_folder(first) if first.is_folder else open_file(first)


def open_folder(folder: Content) -> Caffe2Source | None:
    """The model in a folder, whose files have the usual names; None if there are none."""
    predict = next((name for name in PREDICT if name in folder.names), None)
    init = next((name for name in INIT if name in folder.names), None)
    if predict is None or (predict == "model.pb" and init is None):
        return None
    info = folder.inside(_VALUE_INFO) if _VALUE_INFO in folder.names else None
    return Caffe2Source(folder.inside(predict), None if init is None else folder.inside(init), info)


def open_file(content: Content) -> Caffe2Source:
    """The model that a net computes; what fills its blobs is a file beside it, if there is one."""
    if content.path is None:
        return Caffe2Source(content, None)
    folder, name = content.path.parent, content.path.name
    init = next((path for path in map(folder.joinpath, _init_names(name)) if path.is_file()), None)
    info = folder / _VALUE_INFO
    return Caffe2Source(
        content,
        None if init is None else Content.of(init),
        Content.of(info) if info.is_file() else None,
    )


def _init_names(name: str) -> Sequence[str]:
    """What the init net of a net may be called."""
    suffix = Path(name).suffix
    stems = [name.removesuffix(suffix).replace(*words) for words in _WORDS]
    stems += ["model_init"] if name == "model.pb" else []
    others = (suffix, ".pb", ".pbtxt")
    return [f"{stem}{other}" for stem in stems for other in others if f"{stem}{other}" != name]


def open_pair(first: Content, second: Content) -> Caffe2Source:
    """The model of two nets, whichever of them fills the blobs."""
    nets = read_net(first), read_net(second)
    if _fills(nets[1]) and not _fills(nets[0]):
        first, second = second, first
    return Caffe2Source(second, first)


def _fills(net: Net) -> bool:
    return all(not operator.input for operator in net.operators)
