"""Kernels from source: the disk cache under abuse, warm processes, refusals."""

import ctypes
import os
import subprocess
import sys
import time
import warnings

import llvmlite.binding as llvm
import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.backends.numba import apart, compiler, image
from tinygrad_lite.backends.numba.cache import SUFFIX, Cache, CacheWarning
from tinygrad_lite.backends.numba.compiler import inspect, kernel_key, load_kernels
from tinygrad_lite.backends.numba.cpu import lanes
from tinygrad_lite.backends.numba.engine import engine
from tinygrad_lite.backends.numba.frontend import CompileError, compile_source

needs_images = pytest.mark.skipif(not image.supported(), reason="LLVM loads kernels here")
SOURCE = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    w[0] = lo + {0}
"""


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """As in a new process, nothing is loaded yet."""
    monkeypatch.setattr(compiler, "_addresses", {})


@pytest.fixture
def cache(tmp_path):
    tmp_path.chmod(0o700)
    return Cache(tmp_path)


def answer(address):
    word = np.zeros(1, np.int64)
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(address)(word.ctypes.data, 1, 0, 0)
    return int(word[0])


def origins(source, cache):
    """Load as a new process would; how, and that it works."""
    compiler._addresses.clear()
    kernels = load_kernels({"k": source}, cache)
    assert answer(kernels["k"]) == 6
    return kernels.report[0].origin


def test_origins_and_report(cache):
    source = SOURCE.format(5)
    kernels = load_kernels({"a": source, "b": source, "c": SOURCE.format(7)}, cache)
    assert [r.origin for r in kernels.report] == ["compiled", "memory", "compiled"]
    assert kernels["a"] == kernels["b"] != kernels["c"] and kernels.compiled == 2 and kernels.seconds > 0
    assert answer(kernels["a"]) == 6 and answer(kernels["c"]) == 8
    assert origins(source, cache) == "disk"


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "foreign", "folder", "symlink"])
def test_a_bad_file_is_a_miss_and_is_replaced(cache, damage, tmp_path):
    source = SOURCE.format(5)
    assert origins(source, cache) == "compiled"
    path = cache.path(kernel_key(source))
    data = path.read_bytes()
    if damage in ("folder", "symlink"):
        path.unlink()
        if damage == "folder":
            path.mkdir()
        else:
            (tmp_path / "elsewhere").write_bytes(data)
            path.symlink_to(tmp_path / "elsewhere")
    else:
        flipped = data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]
        path.write_bytes({"empty": b"", "truncated": data[:-5], "foreign": b"MZ" * 900, "flipped": flipped}[damage])
    assert origins(source, cache) == "compiled"
    assert origins(source, cache) == ("compiled" if damage == "folder" else "disk")


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path):
    source = SOURCE.format(5)
    origins(source, Cache(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.warns(CacheWarning, match="others may write"):
        cache = Cache(tmp_path)
    assert origins(source, cache) == "compiled"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cache(tmp_path)  # warned once


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345678)
    with pytest.warns(CacheWarning, match="another user"):
        assert not Cache(tmp_path / "x").usable


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="cannot be made"):
        cache = Cache(tmp_path / "file" / "kernels")
    assert origins(SOURCE.format(5), cache) == "compiled"


def test_a_read_only_folder_is_read(tmp_path, monkeypatch):
    source = SOURCE.format(5)
    origins(source, Cache(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    cache = Cache(tmp_path)
    assert origins(source, cache) == "disk"
    load_kernels({"k": SOURCE.format(8)}, cache)
    assert not cache.path(kernel_key(SOURCE.format(8))).exists()


def test_a_full_disk_leaves_the_kernel_in_memory(cache, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert origins(SOURCE.format(5), cache) == "compiled"
    assert list(cache.folder.iterdir()) == []


def test_new_folders_are_private(tmp_path):
    folder = tmp_path / "a" / "b"
    Cache(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_least_recently_used_files_go(cache):
    for i in range(4):
        cache.put(f"k{i}", bytes(1000))
        os.utime(cache.path(f"k{i}"), (i, i))
    assert cache.get("k0") == bytes(1000)  # which makes it the latest
    cache.trim(limit=2500)
    assert sorted(p.name for p in cache.folder.iterdir()) == [f"k0{SUFFIX}", f"k3{SUFFIX}"]


def test_what_a_killed_writer_left_is_harmless(cache):
    source = SOURCE.format(5)
    left = cache.folder / "abandoned.tmp"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    assert origins(source, cache) == "compiled"
    assert origins(source, cache) == "disk"
    assert not left.exists()


@needs_images
def test_an_image_is_what_the_file_holds(cache):
    load_kernels({"k": SOURCE.format(5)}, cache)
    kept = image.Image.from_bytes(cache.get(kernel_key(SOURCE.format(5))))
    assert image.Image.from_bytes(kept.to_bytes()) == kept
    assert answer(image.load(kept)) == answer(image.load(kept)) == 6, "each at an address of its own"


@needs_images
def test_an_image_that_asks_for_what_is_not_there():
    with pytest.raises(image.LinkError, match="no function no_such_function"):
        image.load(image.Image(bytes(16), 0, [], [(0, "no_such_function", 0)]))


@needs_images
def test_object_code_that_is_no_kernel_is_refused():
    machine = engine().machine
    module = llvm.parse_assembly("@state = global i64 1\ndefine void @f() {\n store i64 2, ptr @state\n ret void\n}")
    with pytest.raises(image.LinkError, match="writable data"):
        image.link(machine.emit_object(module), "f")
    module = llvm.parse_assembly("define void @f() {\n ret void\n}")
    with pytest.raises(image.LinkError, match="no function g"):
        image.link(machine.emit_object(module), "g")


def test_llvm_can_load_what_it_made():
    code = compile_source(SOURCE.format(5), "loaded_by_llvm", engine().machine)[1]
    assert answer(engine().load("loaded_by_llvm", code)) == 6


def test_the_key_covers_source_and_environment(monkeypatch):
    key = kernel_key(SOURCE.format(5))
    assert key != kernel_key(SOURCE.format(6))
    monkeypatch.setattr(compiler, "environment", lambda: "another CPU")
    assert key != kernel_key(SOURCE.format(5))


RAISES = """
def kernel(args, lo, hi, worker):
    for i in range(0, hi, lo):
        pass
"""


@pytest.mark.parametrize(
    "source,message",
    [
        (RAISES, "may raise"),
        ("def kernel(args, lo, hi, worker):\n    unknown(args)\n", "unknown"),
        ("def kernel(args, lo, hi, worker)\n    pass\n", "expected"),
    ],
)
def test_refusals_show_the_source(cache, source, message):
    with pytest.raises(CompileError, match=message) as caught:
        load_kernels({"k": source}, cache)
    assert source in str(caught.value)


@pytest.fixture
def asked(monkeypatch):
    """What another process is asked to compile."""
    requests = []

    class Asked(compiler.Apart):
        def __init__(self, sources):
            requests.append(sources)
            super().__init__(sources)

    monkeypatch.setattr(compiler, "Apart", Asked)
    monkeypatch.setattr(compiler, "processes", apart.processes)
    monkeypatch.setattr(apart.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.delenv("TINYGRAD_LITE_NUM_THREADS", raising=False)
    return requests


MANY = {f"k{i}": SOURCE.format(100 + i) for i in range(apart.MANY)}


def test_many_kernels_are_compiled_by_two_processes(cache, asked):
    kernels = load_kernels(MANY, cache)
    assert [answer(kernels[name]) for name in MANY] == [101 + i for i in range(len(MANY))]
    assert kernels.compiled == len(MANY) and list(kernels) == list(MANY)
    assert len(asked) == 1 and len(asked[0]) == len(MANY) // 2
    assert apart.Apart(asked[0]).codes().keys() == asked[0].keys(), "the other process compiled them"
    compiler._addresses.clear()
    assert {r.origin for r in load_kernels(MANY, cache).report} == {"disk"}
    assert len(asked) == 1


def test_without_the_other_process_all_are_compiled_here(cache, asked, monkeypatch):
    monkeypatch.setattr(apart.sys, "executable", "no-such-interpreter")
    kernels = load_kernels(MANY, cache)
    assert len(asked) == 1 and [answer(kernels[name]) for name in MANY] == [101 + i for i in range(len(MANY))]


def test_what_the_other_process_refuses_is_told_here(cache, asked):
    bad = "def kernel(args, lo, hi, worker):\n    unknown(args)\n"
    with pytest.raises(CompileError, match="unknown") as caught:
        load_kernels({**MANY, "bad": bad}, cache)
    assert bad in str(caught.value)


def test_few_kernels_one_core_or_one_thread_need_no_process(cache, asked, monkeypatch):
    load_kernels({"k": SOURCE.format(99)}, cache)
    assert apart.processes(apart.MANY) == 2 and apart.processes(apart.MANY - 1) == 0
    monkeypatch.setenv("TINYGRAD_LITE_NUM_THREADS", "1")
    assert apart.processes(100) == 0
    monkeypatch.delenv("TINYGRAD_LITE_NUM_THREADS")
    monkeypatch.setattr(apart.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert apart.processes(100) == 0 and not asked
    monkeypatch.setattr(apart.os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert [apart.processes(missing) for missing in (8, 20, 100)] == [2, 5, 16]


LOOP = """
def kernel(args, lo, hi, worker):
    x = f64_at(args)
    y = f32_at(args)
    for i in range(lo, hi):
        x[i] = {0}
        y[i] = {1}
"""
PROCESS = """
import sys, ctypes
from tinygrad_lite.backends.numba import blas
from tinygrad_lite.backends.numba.compiler import load_kernels
from tinygrad_lite.runtime import workers
entry = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
ops = [op + "_{t}(x[i])" for op in ("exp", "log", "tanh", "sin", "erf", "log1p")]
ops += ["pow_{t}(x[i], x[0])", "mod(x[i], x[0])"]
sources = {op: LOOP.format(op.format(t="f64"), op.format(t="f32").replace("x[", "y[")) for op in ops}
kernels = load_kernels(sources)
after_many = "llvmlite" in sys.modules
memory = (ctypes.c_double * 64)()
for name in ops:
    entry(kernels[name])(ctypes.addressof(memory), 0, 20, 0)
fixed = load_kernels({"gemm": blas.matmul_kernel("f32", "rows"), "launch": workers.expand(workers.LAUNCH)})
print(kernels.compiled + fixed.compiled, after_many, "llvmlite" in sys.modules)
"""


def start(folder):
    environment = {**os.environ, "TINYGRAD_LITE_CACHE_DIR": str(folder)}
    environment.pop("TINYGRAD_LITE_NUM_THREADS", None)
    program = f"LOOP = {LOOP!r}\n{PROCESS}"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process):
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.split()


def test_processes_share_the_folder_and_a_warm_one_compiles_nothing(tmp_path):
    """Two at once cold, one killed while it writes; then all is found; where many are missing, LLVM is elsewhere."""
    folder = tmp_path / "kernels"
    killed = start(folder)
    both = [start(folder), start(folder)]
    deadline = time.monotonic() + 60
    while not any(folder.glob("*" + SUFFIX)) and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    for process in both:
        assert finish(process)[1:] == ["False", "True"]
    assert finish(start(folder)) == ["0", "False", "False"]


STEP = """
import sys
import tinygrad_lite as tl
from tinygrad_lite import nn, optim

model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
optimiser = optim.AdamW(model.parameters())

@tl.compile
def step(x, y):
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimiser.step()

step(tl.randn(256, 32), tl.zeros(256, dtype=tl.int64))
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""


@pytest.mark.skipif(not image.supported() or len(os.sched_getaffinity(0)) < 2, reason="compiles in this process")
def test_a_first_step_leaves_numba_to_other_processes(tmp_path):
    """The pool's own kernels too are compiled there: the process stays a hundred megabytes smaller."""
    environment = {**os.environ, "TINYGRAD_LITE_CACHE_DIR": str(tmp_path)}
    environment.pop("TINYGRAD_LITE_NUM_THREADS", None)
    done = subprocess.run([sys.executable, "-c", STEP], env=environment, text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.skipif(lanes() < 16, reason="no vectors of 16 floats")
@pytest.mark.parametrize(("columns", "wide"), [(128, True), (96, False), (1000, False), (1100, True)])
def test_vectors_are_as_wide_as_rows_leave_room_for(columns, wide):
    program = tl.compile(lambda x: (x - x.mean(1, keepdim=True)).exp())
    program(tl.randn(8, columns))
    assembly = inspect(program._latest().program.calls[0].source)[1]
    assert ("zmm" in assembly) == wide
