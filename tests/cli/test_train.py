"""`tinygrad-lite train` and `sample` as a user runs them, on a model of a few hundred parameters."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygrad_lite.cli.app import run
from tinygrad_lite.cli.display import Display
from tinygrad_lite.cli.training import Trainer, interrupts
from tinygrad_lite.utils import checkpoint

TEXT = "the quick brown fox jumps over the lazy dog. " * 60
SIZES = {"layers": 1, "heads": 2, "width": 16, "block": 8, "batch": 4, "warmup": 2, "eval-every": 5, "eval-batches": 2}
SIZES = [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "fox.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory, text):
    """The folder of a finished run of 12 steps."""
    out = tmp_path_factory.mktemp("trained")
    assert run(["train", str(text), *SIZES, "--steps", "12", "--dropout", "0.1", "--out", str(out)]) == 0
    return out


@pytest.fixture
def interrupt_at(monkeypatch):
    """A function that has a signal arrive during the given step."""

    def arrange(step, number=signal.SIGINT):
        original = Display.step

        def interrupting(self, at, *rest):
            original(self, at, *rest)
            if at == step:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(Display, "step", interrupting)

    yield arrange
    monkeypatch.undo()


def diverge_after(good_steps, monkeypatch):
    """Every compiled step after that many gives a NaN."""
    original, calls = Trainer.compile_step, []

    def compile_step(self):
        step = original(self)

        def wrapped(x, y):
            calls.append(1)
            loss = step(x, y)
            return loss if len(calls) <= good_steps else loss * float("nan")

        return wrapped

    monkeypatch.setattr(Trainer, "compile_step", compile_step)


def test_a_run_leaves_its_files_and_reports(tmp_path, text, capsys):
    out = tmp_path / "deep" / "run"
    assert run(["train", str(text), *SIZES, "--steps", "12", "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out.splitlines()[-1])
    assert figures["step"] == 12
    assert 0 < figures["validation_loss"] < 4
    assert {path.name for path in out.iterdir()} == {os.path.basename(name) for name in figures["files"]}
    assert {"checkpoint.safetensors", "sample.txt", "loss.png", "loss.svg", "step.txt"} <= {
        p.name for p in out.iterdir()
    }
    assert (out / "sample.txt").read_text() in printed.out
    assert "validation loss" in printed.err
    assert "step    10" in printed.err


def test_the_loss_falls(tmp_path, text, capsys):
    options = [*SIZES, "--steps", "80", "--lr", "0.02", "--min-lr", "0.002", "--eval-every", "40"]
    assert run(["train", str(text), *options, "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["validation_loss"] < 2.0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_resumes_bit_for_bit(tmp_path, text, trained, interrupt_at, capsys, number, code):
    interrupt_at(7, number)
    arguments = ["train", str(text), *SIZES, "--steps", "12", "--dropout", "0.1", "--out", str(tmp_path)]
    assert run(arguments) == code
    assert f"stopped at step 7; --resume continues from {tmp_path}" in capsys.readouterr().err
    assert run(["train", "--resume", "--out", str(tmp_path)]) == 0
    for name in ("checkpoint.safetensors", "sample.txt"):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


def test_ctrl_c_ends_the_installed_command_with_a_checkpoint(tmp_path, text):
    command = [str(Path(sys.executable).with_name("tinygrad-lite")), "train", str(text), *SIZES]
    command += ["--steps", "1000000", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        for line in child.stderr:
            if line.startswith("step "):
                break
        child.send_signal(signal.SIGINT)
        told = child.stderr.read().splitlines()
    assert child.returncode == 130
    assert "--resume continues" in told[-1]
    assert not any("Traceback" in line for line in told)
    assert checkpoint.load(tmp_path / "checkpoint.safetensors")["step"] >= 5
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def test_a_second_signal_does_not_wait(monkeypatch):
    handler = signal.getsignal(signal.SIGINT)
    with interrupts() as caught:
        os.kill(os.getpid(), signal.SIGINT)
        assert caught == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_outside_the_loop_is_one_line_and_code_130(text, tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", interrupted)
    assert run(["train", str(text), *SIZES, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "tinygrad-lite: interrupted"


def test_a_signal_at_the_last_step_changes_nothing(tmp_path, text, trained, interrupt_at):
    interrupt_at(12)
    assert run(["train", str(text), *SIZES, "--steps", "12", "--dropout", "0.1", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == (trained / "checkpoint.safetensors").read_bytes()


def test_resuming_takes_a_greater_number_of_steps(tmp_path, text, capsys):
    assert run(["train", str(text), *SIZES, "--steps", "5", "--out", str(tmp_path)]) == 0
    assert run(["train", "--resume", "--steps", "8", "--out", str(tmp_path)]) == 0
    tree = checkpoint.load(tmp_path / "checkpoint.safetensors")
    assert tree["step"] == len(tree["losses"]) == 8
    assert [step for step, _ in tree["validations"]] == [5, 8]


def test_a_nan_stops_and_names_the_last_good_checkpoint(tmp_path, text, capsys, monkeypatch):
    diverge_after(7, monkeypatch)
    assert run(["train", str(text), *SIZES, "--steps", "12", "--out", str(tmp_path)]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert "the loss is nan at step 8" in message
    assert f"the last good checkpoint is {tmp_path / 'checkpoint.safetensors'}" in message
    assert checkpoint.load(tmp_path / "checkpoint.safetensors")["step"] == 5


def test_a_nan_before_any_checkpoint_says_so(tmp_path, text, capsys, monkeypatch):
    diverge_after(0, monkeypatch)
    assert run(["train", str(text), *SIZES, "--steps", "12", "--out", str(tmp_path)]) == 1
    assert "at step 1: training stops; this run has no checkpoint yet" in capsys.readouterr().err


def test_a_new_run_keeps_the_checkpoint_that_it_finds(tmp_path, text, trained):
    before = (trained / "checkpoint.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(before)
    assert run(["train", str(text), *SIZES, "--steps", "5", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "previous.safetensors").read_bytes() == before
    assert checkpoint.load(tmp_path / "checkpoint.safetensors")["step"] == 5


def one_line(capsys):
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("tinygrad-lite: ")
    return lines[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"", "is empty"),
        (b"text \xff", "not UTF-8"),
        (b"short", "training part of the text has 4 characters: one block of 64 needs 65"),
        (b"letters " * 50, "validation part of the text has 40 characters: one block of 64 needs 65"),
    ],
)
def test_a_bad_text_is_one_line_and_code_2(tmp_path, capsys, content, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    assert run(["train", str(path), "--out", str(tmp_path / "out")]) == 2
    assert message in one_line(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--heads 3", "--heads 3 does not divide --width 128"),
        ("--no-such-option", "No such option: --no-such-option"),
        ("--steps many", "--steps"),
        ("--steps 0", "--steps"),
        ("--dropout 1", "--dropout 1"),
        ("--lr nan", "--lr"),
        ("--lr 1e-9", "--min-lr 0.0001 is above --lr 1e-09"),
        ("--out {text}/out", "cannot write to the folder {text}/out: Not a directory"),
        ("--resume --out {folder}", "cannot read {folder}/checkpoint.safetensors"),
    ],
)
def test_a_bad_option_is_one_line_and_code_2(tmp_path, text, capsys, options, message):
    names = {"text": text, "folder": tmp_path}
    out = [] if "--out" in options else ["--out", str(tmp_path / "out")]
    assert run(["train", str(text), *options.format(**names).split(), *out]) == 2
    assert message.format(**names) in one_line(capsys)


@pytest.mark.parametrize("arguments", [["fly"], ["train", "a", "b"], ["sample"]])
def test_a_bad_command_is_one_line_and_code_2(capsys, arguments):
    assert run(arguments) == 2
    one_line(capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--width 32", "--width 32: .* holds another architecture, width 16"),
        ("--heads 4", "--heads 4: .* holds another architecture, heads 2"),
        ("--steps 12", "is complete at step 12; a greater --steps goes on"),
        ("--steps 20 {other}", "was trained on another text"),
    ],
)
def test_resuming_what_does_not_fit_is_refused(tmp_path, trained, capsys, options, message):
    other = tmp_path / "other.txt"
    other.write_text(TEXT.replace("fox", "cat"))
    before = (trained / "checkpoint.safetensors").read_bytes()
    assert run(["train", "--resume", "--out", str(trained), *options.format(other=other).split()]) == 2
    assert re.search(message, one_line(capsys))
    assert (trained / "checkpoint.safetensors").read_bytes() == before


def damaged(trained, change):
    tree = checkpoint.load(trained / "checkpoint.safetensors")
    change(tree)
    return tree


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree.update(architecture="unet"), "holds another architecture: unet"),
        (lambda tree: tree["model"].pop("wte.weight"), "holds another architecture: wte.weight is missing"),
        (lambda tree: tree["config"].update(n_layer=2), "holds another architecture: b"),
        (lambda tree: tree["config"].update(n_wings=2), "is damaged: TypeError"),
        (lambda tree: tree.pop("config"), "is damaged: KeyError 'config'"),
        (lambda tree: tree.update(characters="ab"), "is damaged: its vocabulary has 2 characters"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, trained, capsys, change, message):
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, damaged(trained, change))
    assert run(["sample", str(tmp_path)]) == 2
    assert f"{path} {message}" in one_line(capsys)
    assert run(["train", "--resume", "--steps", "20", "--out", str(tmp_path)]) == 2
    assert re.search(f"{path} (holds another architecture|is damaged)", one_line(capsys))


@pytest.mark.parametrize("command", [["sample"], ["train", "--resume", "--out"]])
@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_truncated_checkpoint_is_refused_and_kept(tmp_path, trained, capsys, command, keep):
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes((trained / "checkpoint.safetensors").read_bytes()[:keep])
    size = path.stat().st_size
    assert run([*command, str(tmp_path)]) == 2
    assert "not a whole safetensors file" in one_line(capsys)
    assert path.stat().st_size == size


def test_sample_is_a_function_of_its_options(trained, capsys):
    def sampled(*options):
        assert run(["sample", str(trained), "--prompt", "the ", "--length", "30", *options]) == 0
        return capsys.readouterr().out

    first = sampled()
    assert first.startswith("the ")
    assert len(first) == len("the ") + 30 + 1
    assert sampled() == first
    assert sampled("--seed", "2") != first
    assert sampled("--temperature", "0") == sampled("--top-k", "1") == sampled("--temperature", "0", "--seed", "2")


def test_sample_refuses_a_prompt_of_unknown_characters(trained, capsys):
    assert run(["sample", str(trained / "checkpoint.safetensors"), "--prompt", "ab🦊"]) == 2
    assert "'🦊' at 2" in one_line(capsys)


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tinygrad-lite 0.")


def test_help_lists_the_commands(capsys):
    assert run([]) == 0
    assert "train" in capsys.readouterr().out
