"""The shape of the package: what imports what, what stays light, how large files are, which tests mirror them."""

import ast
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import torch_softucb

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "torch_softucb"
LAYERS = ["errors", "checks", "atomic_io", "checked_files", "rank_state", "rng", "functional", "problems", "policies"]
LAYERS += ["simulation", "learning", "recommend", "from_logs", "training", "cli"]
MODULES = sorted(file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
PACKAGES = sorted(file for file in PACKAGE.rglob("__init__.py") if file.parent != PACKAGE)
HEAVY = ("lightning", "matplotlib", "pandas", "pyarrow", "scipy", "rich")


def _layer(file):
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(file):
    """Layers that a file imports anywhere: at the top, inside functions, for type checkers."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torch_softucb"):
            if node.module == "torch_softucb":
                yield from (alias.name for alias in node.names)
            else:
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("torch_softucb."))


@pytest.mark.parametrize("file", [*MODULES, *PACKAGES], ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_go_downwards_only(file):
    own = _layer(file)
    assert set(_imports(file)) - {own} <= set(LAYERS[: LAYERS.index(own)])


def test_problems_reach_no_policy_even_indirectly():
    direct = {layer: set() for layer in LAYERS}
    for file in MODULES:
        direct[_layer(file)] |= set(_imports(file)) - {_layer(file)}
    reached, new = set(), direct["problems"]
    while new:
        reached |= new
        new = set().union(*(direct[layer] for layer in new)) - reached
    assert "policies" not in reached


@pytest.mark.parametrize(
    "statement",
    [
        "import torch_softucb",
        "from torch_softucb import load_policy, save_policy",
        "from torch_softucb.recommend import SoftUCBHead",
        "from torch_softucb.learning import fit",
    ],
)
def test_import_stays_light(statement):
    script = f"import sys; {statement}; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


@pytest.mark.slow
def test_importing_everything_leaves_the_plotting_backend_alone():
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in MODULES]
    names += [".".join(f.relative_to(ROOT).with_suffix("").parts) for f in (ROOT / "experiments").rglob("*.py")]
    script = (
        "import importlib, matplotlib; before = dict(matplotlib.rcParams)\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "assert dict(matplotlib.rcParams) == before, 'settings were changed'"
    )
    for folder in ("torch_softucb", "experiments", "scripts", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            assert "pyplot" not in file.read_text(), file  # it chooses a backend
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_no_module_is_hidden_by_something_else_of_its_name():
    """In a fresh process that imports the packages only: importing a hidden module would uncover it."""
    pairs = [(".".join(file.relative_to(ROOT).parts[:-1]), file.stem) for file in MODULES]
    script = (
        "import importlib, types\n"
        f"for parent, stem in {pairs!r}:\n"
        "    found = vars(importlib.import_module(parent)).get(stem)\n"
        "    assert found is None or isinstance(found, types.ModuleType), f'{parent}.{stem} is hidden by {found!r}'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


NOT_MIRRORED = {  # module: why it has no test file of its name
    "_checks": "wording of input errors; tested where the functions that call them are tested",
}


def _has_tests(file):
    return file.exists() and "def test_" in file.read_text()


def test_tests_mirror_the_modules():
    counted = [file for file in MODULES if file.stem not in NOT_MIRRORED]
    missing = [
        str(file.relative_to(PACKAGE))
        for file in counted
        if not _has_tests(ROOT / "tests" / file.relative_to(PACKAGE).parent / f"test_{file.stem}.py")
    ]
    assert not missing
    assert len(counted) >= 0.85 * len(MODULES)


def test_files_are_short():
    lines = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in MODULES}
    assert {name: count for name, count in lines.items() if count > 300} == {}
    assert statistics.median(lines.values()) <= 120


def test_few_functions_take_many_arguments():
    many = []
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = len([argument for argument in arguments if argument.arg not in ("self", "cls")])
                if count >= 8:
                    many.append(f"{file.relative_to(PACKAGE)}:{node.name} {count}")
    assert len(many) <= 12, "\n".join(many)


def test_everything_public_is_there_and_documented():
    for module in (torch_softucb, torch_softucb.functional):
        for name in module.__all__:
            assert getattr(module, name).__doc__


def test_the_readme_lists_every_departure():
    text = (ROOT / "README.md").read_text()
    assert {f"D{i}" for i in range(1, 12)} <= set(re.findall(r"\| (D\d+) \|", text))


def test_no_device_is_hard_coded():
    for file in PACKAGE.rglob("*.py"):
        assert not re.search(r"\.cpu\(\)|\.cuda\(|device=[\"']", file.read_text()), file


def test_nothing_refers_to_files_outside_the_repository():
    allowed = {"tests/test_prose.py", "tests/test_package.py", ".ci/run"}
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split()
    for name in listed:
        file = ROOT / name
        if name in allowed or file.suffix in {".png", ".safetensors"} or not file.is_file():
            continue
        assert "../shared" not in file.read_text(errors="ignore"), name
