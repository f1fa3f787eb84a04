"""Dropouts are removed."""

from afterglow.transforms.drop_dropouts import DROP_DROPOUTS
from tests.transforms.rewriting import check_rewrites


def test_a_dropout_is_what_it_reads() -> None:
    check_rewrites(
        DROP_DROPOUTS,
        before="""
            func @main(%x: f32[2, 3]) {
              %d = dropout(%x) {rate = 0.25} : f32[2, 3]
              %y = exp(%d) : f32[2, 3]
              return %y
            }
        """,
        after="""
            func @main(%x: f32[2, 3]) {
              %y = exp(%x) : f32[2, 3]
              return %y
            }
        """,
    )
