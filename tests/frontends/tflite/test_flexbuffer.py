"""The options of custom ops."""

from __future__ import annotations

import random

from afterglow.frontends.tflite.flexbuffer import custom_attributes

OPTIONS = (
    b"rate\x00often\x00back\x00name\x00\x04left\x00sizes\x00\x00\x03\x00\x01\x00\x02\x00,\x01deep"
    b'\x00\x01x\x00\x02\x01\x04\x04\x14\x06-\x0f*6<"\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x06'
    b"\x00\x00\x00\x01\x00\x00\x00\x1d\x00\x00\x00>\x00\x00\x00\xfd\xff\xff\xff\x00\x00\x00?<\x00"
    b"\x00\x00j(\x14\x06\x0e-\x1e&\x01"
)
"""{rate: 0.5, often: -3, back: true, name: "left", sizes: [1, 2, 300], deep: [1, "x"]}, as the
package flatbuffers writes it."""


def test_numbers_texts_and_lists_of_a_map_are_attributes() -> None:
    found = {name: each.value for name, each in custom_attributes(OPTIONS).items()}
    assert found == {
        **{"rate": 0.5, "often": -3, "back": 1, "name": "left"},
        "sizes": (1, 2, 300),
    }


def test_what_is_no_map_has_no_attributes() -> None:
    numbers = random.Random(0)
    for data in (b"", b"\x00", b"abc", OPTIONS[:-1], OPTIONS[5:]):
        assert isinstance(custom_attributes(data), dict)
    for _ in range(300):
        damaged = bytearray(OPTIONS)
        damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
        assert isinstance(custom_attributes(bytes(damaged)), dict)
