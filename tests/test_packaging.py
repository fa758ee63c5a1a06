"""What is installed is what is on the disk, under one name each, in the layers that docs/architecture.md draws."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPED = {"ir": "tinygrad_lite.ir", "ops": "tinygrad_lite.ops", "models": "tinygrad_lite.models"}
FOLDERS = {"tinygrad_lite": "tinygrad_lite", **MAPPED}
# The outermost layer is written as a user would write it.
USES_THE_PUBLIC_NAMES = {"tinygrad_lite.cli", "tinygrad_lite.models", "tinygrad_lite.onnx", "tinygrad_lite.viz"}


def module_name(file: Path) -> str:
    folder, *rest = file.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS[folder], *(part for part in rest if part != "__init__")])


SOURCES = {module_name(file): file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))}


def test_every_package_is_listed():
    on_disk = {module_name(file) for file in SOURCES.values() if file.name == "__init__.py"}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(on_disk)
    assert PROJECT["tool"]["setuptools"]["package-dir"] == {name: folder for folder, name in FOLDERS.items()}


def test_every_folder_of_code_is_a_package():
    for file in SOURCES.values():
        assert (file.parent / "__init__.py").exists(), f"{file.parent} has no __init__.py and would not be installed"


def test_every_module_has_a_layer():
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    layered = set(re.findall(r"tinygrad_lite[.\w]*", " ".join(contracts[0]["layers"])))
    packages = ("tinygrad_lite", "tinygrad_lite.ir")
    for name in SOURCES:
        parents = [name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1)]
        assert name in packages or layered & {name, *parents}, f"{name} is in no layer of pyproject.toml"


@pytest.mark.parametrize("bare", MAPPED)
def test_a_bare_import_from_the_repository_is_refused(bare):
    run = subprocess.run([sys.executable, "-c", f"import {bare}"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1
    assert f"ImportError: import {MAPPED[bare]}" in run.stderr


def imports_of(name: str) -> list[tuple[int, str, list[str]]]:
    """(line, module, names) of each import statement in a module, relative ones made absolute."""
    found = []
    package = name if SOURCES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(SOURCES[name].read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, []) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found.append((node.lineno, module, [alias.name for alias in node.names]))
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_inside_imports_names_from_the_package_root(name):
    if {name, name.rpartition(".")[0]} & USES_THE_PUBLIC_NAMES:
        return
    for line, module, names in imports_of(name):
        modules = {f"{module}.{each}" for each in names}
        fine = module != "tinygrad_lite" or (names and modules <= SOURCES.keys())
        where = f"{SOURCES[name].relative_to(ROOT)}:{line}"
        assert fine, f"{where}: import from the module that defines {names or 'what it needs'}"


def test_importing_the_package_is_light():
    """No compiler, no drawing and no command line until they are used."""
    heavy = ["numba", "matplotlib", "rich", "typer", "networkx", "graphviz", "graphviz_pure", "torch"]
    code = f"import sys, tinygrad_lite; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_versions_agree():
    """One version: pyproject.toml's, in the changelog too."""
    assert f"## {PROJECT['project']['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_explained():
    text = (ROOT / "docs" / "dependencies.md").read_text()
    extras = [item for items in PROJECT["project"]["optional-dependencies"].values() for item in items]
    for requirement in PROJECT["project"]["dependencies"] + extras:
        name = re.split(r"[<>=~!\[ ]", requirement)[0]
        assert f"`{name}`" in text, f"docs/dependencies.md does not say what {name} is for"
