"""`tinygrad-lite plan-memory`: tables in the MiniMalloc format, and everything that can be wrong with one."""

import csv
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_lite.cli.app import run

TABLE = "id,lower,upper,size\na,0,3,4\nb,3,9,4\n0,0,9,2\nd,6,12,3\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(TABLE)
    return path


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def check(rows):
    """No two rows that overlap in time share bytes."""
    boxes = [tuple(int(row[k]) for k in ("lower", "upper", "size", "offset")) for row in rows]
    for (l, u, s, o), (lower, upper, size, offset) in itertools.combinations(boxes, 2):
        assert u <= lower or upper <= l or o + s <= offset or offset + size <= o
    return max((o + s for *_, s, o in boxes), default=0)


def test_a_table_gets_offsets(table, tmp_path, capsys):
    out = tmp_path / "deep" / "out.csv"
    assert run(["plan-memory", str(table), "-o", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    rows = rows_of(out)
    assert [row["id"] for row in rows] == ["a", "b", "0", "d"]
    assert check(rows) == summary["size"] == summary["live"] == 9
    assert summary == {"buffers": 4, "size": 9, "live": 9, "ratio": 1.0}
    assert run(["plan-memory", str(out), "-o", str(out)]) == 0  # a plan is a table: its offsets are made anew
    assert rows_of(out) == rows
    assert "4 buffers in 9 B" in capsys.readouterr().out
    assert [p.name for p in out.parent.iterdir()] == ["out.csv"]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, 99)), max_size=25))
def test_any_table(tmp_path_factory, lives):
    folder = tmp_path_factory.mktemp("any")
    lines = [f"{i},{low},{low + length},{size}" for i, (low, length, size) in enumerate(lives)]
    (folder / "in.csv").write_text("\n".join(["id,lower,upper,size", *lines]))
    assert run(["plan-memory", str(folder / "in.csv"), "-o", str(folder / "out.csv"), "--steps", "100"]) == 0
    rows = rows_of(folder / "out.csv")
    assert [",".join(list(row.values())[:4]) for row in rows] == lines
    check(rows)


def test_columns_in_any_order_blank_lines_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes('\ufeffsize,upper,id,lower\r\n4,9,x,3\r\n\r\n" 5",4,"y,1",0\r\n'.encode())
    assert run(["plan-memory", str(path), "-o", str(path)]) == 0
    assert [row["id"] for row in rows_of(path)] == ["x", "y,1"]
    assert check(rows_of(path)) == 9


def test_pictures(table, tmp_path):
    for name, start in (("x.svg", b"<?xml"), ("x.png", b"\x89PNG")):
        assert run(["plan-memory", str(table), "-o", str(tmp_path / "out.csv"), "--plot", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(start)


def test_capacity(tmp_path, capsys):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("id,lower,upper,size\n0,6,9,4\n1,2,6,3\n2,3,7,3\n3,4,6,2\n")
    assert run(["plan-memory", str(path), "-o", str(out), "--capacity", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["size"] == check(rows_of(out)) == 8
    out.unlink()
    assert run(["plan-memory", str(path), "-o", str(out), "--capacity", "7"]) == 2
    assert "8 bytes are alive at once, which --capacity 7 cannot hold" in capsys.readouterr().err
    assert run(["plan-memory", str(path), "-o", str(out), "--capacity", "8", "--steps", "0"]) == 2
    assert "no plan within --capacity 8 after 0 steps; the best takes 9" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column id, lower, upper, size"),
        ("id,lower,size\n", "line 1: no column upper;"),
        ("id,lower,upper,size,hint\n", "line 1: unknown column 'hint'"),
        ("id,lower,upper,size,size\n", "line 1: a column occurs twice"),
        ("id,lower,upper,size\n0,1,2\n", "line 2: 3 fields, where the first line has 4"),
        ("id,lower,upper,size\n\n0,1,2,x\n", "line 3: size 'x' is not an integer"),
        ("id,lower,upper,size\n0,1,2,1.5\n", "line 2: size '1.5' is not an integer"),
        ("id,lower,upper,size\n0,1,2,1_0\n", "line 2: size '1_0' is not an integer"),
        ("id,lower,upper,size\n0,,2,1\n", "line 2: lower '' is not an integer"),
        ("id,lower,upper,size\n0,-1,2,1\n", "line 2: lower -1 is negative"),
        ("id,lower,upper,size\n0,1,2,-3\n", "line 2: size -3 is negative"),
        ("id,lower,upper,size\n0,1,2,0\n", "line 2: size is 0"),
        ("id,lower,upper,size\n0,2,2,1\n", "line 2: upper 2 is not above lower 2"),
        ("id,lower,upper,size\n,1,2,1\n", "line 2: the id is empty"),
        ("id,lower,upper,size\n7,1,2,1\n\n7,1,2,1\n", "line 4: id '7' occurred before, on line 2"),
        (f"id,lower,upper,size\n0,1,2,{10**30}\n", "is above 2^60"),
        (f"id,lower,upper,size\n0,1,2,{2**60}\n1,1,2,1\n", "the sizes add up to more than 2^60"),
        ('id,lower,upper,size\n0,1,2,"1\n', "not CSV"),
    ],
)
def test_bad_tables(tmp_path, capsys, text, message):
    path = tmp_path / "in.csv"
    path.write_text(text)
    assert run(["plan-memory", str(path), "-o", str(tmp_path / "out.csv")]) == 2
    error = capsys.readouterr().err
    assert message in error and "in.csv" in error and error.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_files_that_cannot_be(table, tmp_path, capsys):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for arguments, message in (
        ([str(tmp_path / "none.csv"), "-o", "x"], "cannot read"),
        ([str(tmp_path), "-o", "x"], "cannot read"),
        ([str(tmp_path / "binary"), "-o", "x"], "not UTF-8"),
        ([str(table), "-o", str(table / "x")], "cannot write"),
        ([str(table), "-o", str(tmp_path / "out.csv"), "--plot", "x.gif"], "cannot draw x.gif"),
        ([str(table)], "Missing option"),
    ):
        assert run(["plan-memory", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
