"""How nets look: what tells them from other files, without reading them."""

from __future__ import annotations

import re

from afterglow.frontends.content import Content
from afterglow.frontends.protobuf import LENGTH, VARINT, ProtobufReader
from afterglow.support.errors import ModelError

NET = "a Caffe2 net"
"""What errors call such a file."""
_NET_FIELDS = {4: VARINT, **dict.fromkeys((1, 2, 3, 5, 6, 7, 8, 9), LENGTH)}
_OPERATOR_FIELDS = {
    9: VARINT,
    12: VARINT,
    **dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 8, 10, 11), LENGTH),
}
_OP, _TYPE = 2, 4
_TYPE_NAME = re.compile(rb"[A-Za-z_][\w.:/-]*")
_TEXT = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*"
    rb"(?:name|type|op|arg|device_option|num_workers|external_input|external_output)\s*[:{<]"
)
_TEXT_OP = re.compile(rb"(?:^|[\s}])(?:op\s*:?\s*[{<]|external_(?:in|out)put\s*:)")


def is_text(content: Content) -> bool:
    """Whether it begins as the text of a net does."""
    return _TEXT.match(content.head) is not None


def is_net(content: Content) -> bool:
    """Whether it begins as a net does: with fields of one, among them an operator of some type."""
    if is_text(content):
        return _TEXT_OP.search(content.head) is not None
    reader = ProtobufReader(content.data, NET)
    try:
        for field in reader.fields(0, len(content.data), "net"):
            if _NET_FIELDS.get(field.number) != field.wire_type:
                return False
            if field.number == _OP:
                return _is_operator(reader, field.start, field.end)
    except ModelError:
        return False
    return False


def _is_operator(reader: ProtobufReader, start: int, end: int) -> bool:
    has_type = False
    for field in reader.fields(start, end, "op"):
        if _OPERATOR_FIELDS.get(field.number) != field.wire_type:
            return False
        if field.number == _TYPE:
            has_type = _TYPE_NAME.fullmatch(bytes(reader.data[field.start : field.end])) is not None
    return has_type
