"""The command `tinygrad-lite`: options and their errors; the work is in the modules beside this one.

Exit codes: 0 done; 1 training diverged, or graphs differ; 2 bad input, in one line on standard error; 130 Ctrl-C,
143 SIGTERM.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tinygrad_lite.cli.options import TrainOptions
from tinygrad_lite.cli.stopped import Stopped
from tinygrad_lite.errors import UserError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

# typer's public BadParameter derives from the base of all command-line errors, which has moved between its versions
_CommandLineError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

DEFAULT = TrainOptions()
BAD_INPUT, INTERRUPTED = 2, 130


class Stage(enum.StrEnum):
    traced = "traced"
    optimised = "optimised"
    scheduled = "scheduled"
    kernels = "kernels"
    tape = "tape"


class Form(enum.StrEnum):
    text = "text"
    dot = "dot"
    svg = "svg"
    png = "png"
    json = "json"
    html = "html"


EXTENSIONS = {form: ".txt" if form is Form.text else f".{form.value}" for form in Form}


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line; returns its exit code."""
    try:
        code = app(arguments or ["--help"], prog_name="tinygrad-lite", standalone_mode=False) or 0
    except UserError as error:
        return _complain(str(error), BAD_INPUT)
    except Stopped as stopped:
        return _complain(str(stopped), stopped.exit_code)
    except _CommandLineError as error:
        return _complain(error.format_message(), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return 0
    return _complain("interrupted", code) if code == INTERRUPTED else code  # some versions of typer turn it into a code


def _complain(message: str, code: int) -> int:
    print("tinygrad-lite:", " ".join(message.split()), file=sys.stderr)
    return code


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print("tinygrad-lite", version("tinygrad-lite"))
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train a small GPT on a text, sample from it, and look at the graphs that the compiler sees."""


@app.command()
def train(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="UTF-8 file; else Python's own reference.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = DEFAULT.steps,
    batch: Annotated[int, typer.Option(min=1, help="Windows a step.")] = DEFAULT.batch,
    block: Annotated[int, typer.Option(min=1, help="Characters a window.")] = DEFAULT.block,
    layers: Annotated[int, typer.Option(min=1)] = DEFAULT.layers,
    heads: Annotated[int, typer.Option(min=1)] = DEFAULT.heads,
    width: Annotated[int, typer.Option(min=1, help="Features a character.")] = DEFAULT.width,
    dropout: Annotated[float, typer.Option(min=0, max=1)] = DEFAULT.dropout,
    lr: Annotated[float, typer.Option(min=0, help="Learning rate after the warm-up.")] = DEFAULT.lr,
    min_lr: Annotated[float, typer.Option(min=0, help="Learning rate at the end of the cosine.")] = DEFAULT.min_lr,
    warmup: Annotated[int, typer.Option(min=0, help="Steps of linear warm-up.")] = DEFAULT.warmup,
    weight_decay: Annotated[float, typer.Option(min=0, help="On matrices only.")] = DEFAULT.weight_decay,
    clip: Annotated[float, typer.Option(min=0, help="Greatest norm of the gradient.")] = DEFAULT.clip,
    seed: Annotated[int, typer.Option(min=0)] = DEFAULT.seed,
    eval_every: Annotated[
        int, typer.Option(min=1, help="Steps between validations and checkpoints.")
    ] = DEFAULT.eval_every,
    eval_batches: Annotated[
        int, typer.Option(min=1, help="Batches a validation; the last one takes the whole text.")
    ] = DEFAULT.eval_batches,
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint and the drawings.")] = Path("runs/gpt"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
) -> None:
    """Train a character GPT and save checkpoints, a sample, the loss curve and the graphs."""
    from tinygrad_lite.cli import report, training

    names = {field.name for field in dataclasses.fields(TrainOptions)}
    options = TrainOptions(**{name: context.params[name] for name in names})
    given = frozenset(name for name in names if _stands_on_the_line(context, name)) if resume else None
    summary = report.train(training.open_run(out, options, given))
    if as_json:
        print(json.dumps(summary))


def _stands_on_the_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command()
def sample(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or the folder of a run.")],
    prompt: Annotated[str, typer.Option(help="What the text begins with.")] = "",
    length: Annotated[int, typer.Option(min=0, help="Characters to add.")] = 500,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest character each time.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from that many likeliest characters.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 1337,
) -> None:
    """Print text that a trained model goes on with."""
    from tinygrad_lite.cli.loading import CHECKPOINT, load_model
    from tinygrad_lite.cli.sampling import write_on

    model, vocabulary = load_model(checkpoint / CHECKPOINT if checkpoint.is_dir() else checkpoint)
    print(write_on(model, vocabulary, prompt, length, temperature, top_k, seed))


_Target = Annotated[str, typer.Argument(metavar="TARGET", help="A preset, module:callable, or a saved graph's file.")]
_Train = Annotated[bool, typer.Option("--train/--inference", help="The whole training step, or forward alone.")]
_Batch = Annotated[int, typer.Option(min=1, help="Examples in a preset's input.")]
_Json = Annotated[bool, typer.Option("--json", help="One line of JSON.")]
_Output = Annotated[Path | None, typer.Option("--output", "-o", help="File; else standard output.")]


@app.command()
def graph(
    target: _Target,
    stage: Annotated[Stage, typer.Option(help="How far the compiler has come.")] = Stage.traced,
    form: Annotated[
        Form | None, typer.Option("--format", help="What to write; else by the file's extension, or text.")
    ] = None,
    output: _Output = None,
    train: _Train = False,
    batch: _Batch = 1,
    depth: Annotated[int | None, typer.Option(min=0, help="Fold scopes of that many levels to one each.")] = None,
    costs: Annotated[bool, typer.Option("--costs", help="End the text with FLOPs and bytes by scope.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Memory alive beside each line of the text.")] = False,
) -> None:
    """Write the graph of a model as the compiler sees it."""
    from tinygrad_lite.cli import graphs, targets

    given = {"depth": depth, "costs": costs or None, "memory": memory or None}
    options = {name: value for name, value in given.items() if value is not None}
    extension = EXTENSIONS[form] if form else _extension(output)
    shown = targets.target(target, train, batch).stage(stage.value)
    graphs.write(shown, extension, output, **options)


def _extension(output: Path | None) -> str:
    if output is None:
        return ".txt"
    if output.suffix.lower() not in EXTENSIONS.values():
        known = ", ".join(EXTENSIONS.values())
        raise UserError(f"cannot tell the format of {output} by its extension: it is none of {known}; give --format")
    return output.suffix.lower()


@app.command()
def view(
    target: _Target,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML file; else TARGET.html.")] = None,
    train: _Train = False,
    batch: _Batch = 1,
    runs: Annotated[int, typer.Option("--profile", min=0, help="Compile, run so often, and show the times.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one HTML page that shows a graph at every stage, and print where it is."""
    from tinygrad_lite.cli import graphs, targets

    print(graphs.view(targets.target(target, train, batch), output, runs, show))


@app.command()
def summary(
    target: _Target,
    batch: _Batch = 1,
    depth: Annotated[int | None, typer.Option(min=0, help="Levels of modules to show.")] = None,
    as_json: _Json = False,
) -> None:
    """Print a model's modules with shapes, parameters, work and receptive fields."""
    from tinygrad_lite.cli import graphs, targets

    graphs.summary(targets.target(target, False, batch), depth, as_json)


@app.command()
def profile(
    target: _Target,
    runs: Annotated[int, typer.Option(min=1, help="Runs to average over.")] = 10,
    trace: Annotated[Path | None, typer.Option(help="Write a Chrome trace, for Perfetto, to this file.")] = None,
    train: _Train = False,
    batch: _Batch = 1,
    as_json: _Json = False,
) -> None:
    """Compile, run, and print where the time goes: by kernel and by module."""
    from tinygrad_lite.cli import graphs, targets

    graphs.profile(targets.target(target, train, batch), runs, trace, as_json)


@app.command()
def explain(target: _Target, train: _Train = False, batch: _Batch = 1, as_json: _Json = False) -> None:
    """Compile, and print what fused and why not, the compile bill, the memory plan, the costs."""
    from tinygrad_lite.cli import graphs, targets

    graphs.explain(targets.target(target, train, batch), as_json)


@app.command()
def diff(
    before: _Target,
    after: Annotated[str | None, typer.Argument(metavar="[TARGET]", help="Another; else the same one.")] = None,
    stage: Annotated[Stage, typer.Option(help="Stage of the first.")] = Stage.traced,
    to: Annotated[Stage | None, typer.Option(help="Stage of the second; else that of the first.")] = None,
    train: _Train = False,
    batch: _Batch = 1,
    as_json: _Json = False,
) -> int:
    """Print what two graphs, or two stages of one, differ in. Exit code 1 where they do."""
    from tinygrad_lite.cli import graphs, targets

    if after is None and to is None:
        raise UserError("give two targets, or --to with another stage of the one")
    first = targets.target(before, train, batch)
    second = first if after is None else targets.target(after, train, batch)
    return graphs.diff(first, second, (stage.value, (to or stage).value), as_json)


@app.command("plan-memory")
def plan_memory(
    source: Annotated[Path, typer.Argument(metavar="IN.csv", help="Columns id, lower, upper, size: half-open lives.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The same table with a column offset.")],
    capacity: Annotated[int | None, typer.Option(min=0, help="Bytes; else 1.02 times what is alive at once.")] = None,
    steps: Annotated[int, typer.Option(min=0, help="Nodes to search at most.")] = 80_000,
    plot: Annotated[Path | None, typer.Option(help="Draw lives and places: .svg, .png or .pdf.")] = None,
    as_json: _Json = False,
) -> None:
    """Give every buffer of a table an offset in one arena, so that no two that are alive at once share a byte."""
    from tinygrad_lite.cli import planning

    found = planning.run(source, output, capacity, steps, plot)
    print(json.dumps(found) if as_json else "\n".join(planning.lines(found)))
