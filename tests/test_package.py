"""The shape of the package: what imports what, what stays light, what the README promises."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torch_softucb

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "torch_softucb"
LAYERS = ["errors", "checks", "atomic_io", "rng", "functional", "problems", "policies", "simulation", "learning"]
LAYERS += ["recommend", "from_logs", "training", "cli"]


def _imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torch_softucb"):
            if node.module == "torch_softucb":
                yield from (alias.name for alias in node.names)
            else:
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("torch_softucb."))


@pytest.mark.parametrize("file", [f for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py"], ids=lambda f: f.stem)
def test_imports_go_downwards_only(file):
    own = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    used = set(_imports(file)) - {own}
    assert used <= set(LAYERS[: LAYERS.index(own)])
    if own == "problems":
        assert not used & {"functional", "policies"}


def test_import_stays_light():
    heavy = ("lightning", "matplotlib", "pandas", "pyarrow", "scipy", "rich")
    script = f"import sys, torch_softucb; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


def test_tests_lie_where_the_code_lies():
    known = {"reference.py", "__init__.py", "cases.py", "test_twins.py", "test_batch_shapes.py"}
    for file in (ROOT / "tests").glob("functional/test_*.py"):
        assert (PACKAGE / "functional" / file.name.removeprefix("test_")).exists() or file.name in known
    for file in (PACKAGE / "functional").glob("[a-z]*.py"):
        assert (ROOT / "tests" / "functional" / f"test_{file.name}").exists()


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
