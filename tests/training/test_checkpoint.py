from __future__ import annotations

import numpy as np
import pytest

from afterglow.support.container import write_container
from afterglow.support.errors import AfterglowWarning, UsageError
from afterglow.training.checkpoint import Checkpoint, Checkpoints, changed
from afterglow.types.dtype import bf16

WEIGHTS = {
    "w": np.float32([[1, 2], [3, 4]]),
    "scale": np.float32([]),
}
SLOTS = {"w.velocity": np.float32([[0.5, 0], [0, 0]])}


def checkpoint(step=7):
    return Checkpoint(step, WEIGHTS, SLOTS, {"w": WEIGHTS["w"]}, {"lr": 0.1}, {"epoch": 2})


def test_a_checkpoint_holds_all_to_the_bit(tmp_path):
    checkpoint().save(tmp_path / "a.agt")
    found = Checkpoint.load(tmp_path / "a.agt")
    assert (found.step, found.settings, found.progress) == (7, {"lr": 0.1}, {"epoch": 2})
    for group in ("weights", "slots", "best"):
        saved, wanted = getattr(found, group), getattr(checkpoint(), group)
        assert saved.keys() == wanted.keys()
        assert all((saved[name] == wanted[name]).all() for name in wanted)
        assert all(saved[name].flags.writeable for name in saved)


def test_floats_of_16_bits_come_back(tmp_path):
    narrow = np.float32([0.5, -3]).astype(bf16.numpy)
    Checkpoint(1, {"w": narrow}).save(tmp_path / "a.agt")
    found = Checkpoint.load(tmp_path / "a.agt").weights["w"]
    assert found.dtype == bf16.numpy
    assert (found == narrow).all()


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a.agt"
    checkpoint().save(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        Checkpoint.load(path)
    assert str(caught.value) == (
        f"error: {path}: section 'slots/w.velocity' is not what was saved: its checksum is off\n"
        "  help: load an earlier checkpoint"
    )
    path.write_bytes(data[:-9])
    with pytest.raises(UsageError, match="the file is truncated"):
        Checkpoint.load(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "a.agt"
    for write in (lambda: path.write_text("weights"), lambda: write_container(path, {}, {})):
        write()
        with pytest.raises(UsageError) as caught:
            Checkpoint.load(path)
        assert caught.value.what == f"{path}: not a checkpoint of a training run"
    with pytest.raises(UsageError) as caught:
        Checkpoint.load(tmp_path / "b.agt")
    assert caught.value.what == f"{tmp_path / 'b.agt'}: cannot be opened: No such file or directory"


def test_another_model_and_another_optimizer_are_named():
    with pytest.raises(UsageError) as caught:
        checkpoint().check_arrays({"w": np.float32([[1, 2]]), "b": np.float32([1])}, {})
    assert str(caught.value) == (
        "error: the checkpoint does not fit the model\n"
        "    weight 'w': float32[2, 2] saved, float32[1, 2] wanted\n"
        "    weight 'scale': only in the checkpoint\n"
        "    weight 'b': not in the checkpoint\n"
        "  help: train what it was saved from, or begin a new run in another folder"
    )
    with pytest.raises(UsageError) as caught:
        checkpoint().check_arrays(WEIGHTS, {"w.mean": WEIGHTS["w"]})
    assert caught.value.what == "the checkpoint does not fit the optimizer"
    assert changed({"lr": 0.1, "seed": 0}, {"lr": 0.2, "seed": 0}) == ["lr: 0.1 saved, 0.2 now"]


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    where = Checkpoints(tmp_path / "run", keep=2)
    assert where.newest() is None
    for step in (9, 10, 100):
        where.save(checkpoint(step), is_best=step == 9)
    assert [path.name for path in where.files()] == ["step-000000100.agt", "step-000000010.agt"]
    assert Checkpoint.load(where.best).step == 9
    assert where.newest().step == 100


def test_an_earlier_one_serves_if_the_last_is_damaged(tmp_path):
    where = Checkpoints(tmp_path)
    where.save(checkpoint(1))
    where.save(checkpoint(2))
    where.files()[0].write_bytes(b"AFTERGLW")
    with pytest.warns(AfterglowWarning, match="an earlier checkpoint is used"):
        assert where.newest().step == 1


def test_what_an_interrupted_save_left_is_removed(tmp_path):
    left = tmp_path / ".step-000000003.agt.1234abcd.part"
    left.write_bytes(b"half")
    where = Checkpoints(tmp_path)
    where.save(checkpoint(3))
    assert not left.exists()
    assert where.newest().step == 3
