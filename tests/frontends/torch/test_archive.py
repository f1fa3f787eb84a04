"""Files of `torch.export.save` that want more than to be read."""

import io
import zipfile

import pytest

torch = pytest.importorskip("torch")

import afterglow as ag  # noqa: E402
from tests.frontends.torch.test_source import file, net  # noqa: E402, F401

PICKLE = b'{"config": {"w": {"path_name": "weight_0", "use_pickle": true}}}'
CALL = b"{\"expr_str\": \"__import__('os').system('true')\"}"


class Evil:
    """Something that runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def changed(path, **entries):
    """The archive with further or other entries, by the ends of their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        folder = old.namelist()[0].split("/")[0]
        names = {f"{folder}/{name}": data for name, data in entries.items()}
        for entry in old.namelist():
            new.writestr(entry, names.pop(entry, None) or old.read(entry))
        for name, data in names.items():
            new.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("data/aotinductor/model/x.so", b"\x7fELF", "the file holds code"),
        ("data/weights/more_config.json", PICKLE, "the file holds pickled Python objects"),
        ("models/more.json", CALL, "an expression in the program is no arithmetic"),
        ("models/more.json", b'{"expr_str": "S(1).args"}', "is no arithmetic"),
        ("models/more.json", b'{"expr_str": "Symbol(\'a b\')"}', "is no arithmetic"),
        ("models/more.json", b'{"expr_str": "9**9**9"}', "is no arithmetic"),
        (
            "models/more.json",
            b'{"expr_str": "Pow(Integer(9), Integer(99999))"}',
            "is no arithmetic",
        ),
        ("models/more.json", b'{"expr_str": "2**9**2**9**2"}', "is no arithmetic"),
        ("models/more.json", b'{"expr_str": "Permutation(999999999)"}', "is no arithmetic"),
        ("models/more.json", b'{"expr_str": "2*("}', "is malformed"),
        ("models/more.json", b"{", "its archive cannot be read"),
    ],
)
def test_what_a_reader_would_run_is_refused(file, name, data, why):  # noqa: F811
    with pytest.raises(ag.AfterglowError, match=why):
        ag.compile(changed(file, **{name: data}))


def test_a_pickle_that_runs_code_does_not(file, tmp_path):  # noqa: F811
    buffer = io.BytesIO()
    torch.save((Evil(tmp_path / "written"),), buffer)
    with pytest.raises(ag.ModelError, match="PyTorch cannot read the program"):
        ag.compile(changed(file, **{"data/sample_inputs/model.pt": buffer.getvalue()}))
    assert not (tmp_path / "written").exists()


def test_a_damaged_program_is_refused_without_a_traceback(file, caplog):  # noqa: F811
    with pytest.raises(ag.ModelError, match="PyTorch cannot read the program"):
        ag.compile(changed(file, **{"archive_version": b"x", "models/model.json": b"{}"}))
    with pytest.raises(ag.ModelError, match="PyTorch cannot read the program"):
        ag.compile(changed(file, **{"archive_format": b"x"}))
    assert not caplog.records


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 8), (10, 14)])
def test_entries_that_claim_to_be_encrypted_or_packed_are_refused(file, offset, value):  # noqa: F811
    data = bytearray(file.read_bytes())
    place = data.index(b"PK\1\2", data.index(b"model.json"))
    while b"model.json" not in data[place : place + 100]:
        place = data.index(b"PK\1\2", place + 4)
    data[place + offset] = value
    with pytest.raises(ag.ModelError, match="the program is damaged"):
        ag.compile(bytes(data))


def test_sizes_are_arithmetic(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x.reshape(-1, 2) * 2

    sizes = {"x": {0: torch.export.Dim("batch", max=64)}}
    program = torch.export.export(Net(), (torch.ones(3, 4),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "net.pt2")
    assert ag.compile(tmp_path / "net.pt2")(torch.ones(5, 4)).shape == (10, 2)
