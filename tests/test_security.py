"""What the code may not do with files and input: SECURITY.md as tests over the syntax trees."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    file for folder in ("torch_softucb", "experiments", "scripts", "benchmarks") for file in (ROOT / folder).rglob("*.py")
)
FORBIDDEN_CALLS = {"eval", "exec", "compile_command", "__import__"}
FORBIDDEN_ATTRIBUTES = {
    "yaml.load",
    "yaml.full_load",
    "yaml.unsafe_load",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "marshal.loads",
    "shelve.open",
    "joblib.load",
    "os.system",
    "numpy.load",
    "np.load",
}


def _dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([node.id, *parts]) if isinstance(node, ast.Name) else ""


def violations(tree):
    """Calls that run code from a file, or that could."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if name in FORBIDDEN_CALLS or name in FORBIDDEN_ATTRIBUTES:
            yield f"line {node.lineno}: {name}"
        if name == "torch.load" and not (
            isinstance(keywords.get("weights_only"), ast.Constant) and keywords["weights_only"].value is True
        ):
            yield f"line {node.lineno}: torch.load without weights_only=True"
        if isinstance(keywords.get("shell"), ast.Constant) and keywords["shell"].value:
            yield f"line {node.lineno}: shell=True"
        if isinstance(keywords.get("allow_pickle"), ast.Constant) and keywords["allow_pickle"].value:
            yield f"line {node.lineno}: allow_pickle=True"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_file_is_run_as_a_program(file):
    assert not list(violations(ast.parse(file.read_text())))
    assert "--bind_all" not in file.read_text()  # TensorBoard for everyone on the network


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "pickle.loads(data)",
        "np.load(path)",
        "yaml.full_load(text)",
        "subprocess.run('ls', shell=True)",
        "pandas.read_pickle and os.system('ls')",
    ],
)
def test_the_test_finds_what_it_looks_for(code):
    assert list(violations(ast.parse(code)))


def test_floors_follow_known_advisories():
    """torch 2.10 (CVE-2026-24747), lightning 2.6.6, pyarrow 14.0.1; constraints pin at least that."""
    text = (ROOT / "setup.cfg").read_text()
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for name, floor in (("torch", (2, 10)), ("lightning", (2, 6, 6)), ("pyarrow", (14, 0, 1))):
        asked = tuple(int(part) for part in re.search(rf"^ +{name}>=([\d.]+)$", text, re.MULTILINE)[1].split("."))
        assert asked >= floor, name
        assert tuple(int(part) for part in pins[name].split(".")) >= asked, name


def test_the_page_names_every_boundary():
    text = (ROOT / "SECURITY.md").read_text()
    for word in ("Checkpoints", "Policy files", "Decision logs", "Parquet", "YAML", "c10d", "TensorBoard", "Report"):
        assert word in text
