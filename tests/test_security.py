"""What the code may not do with files and input: SECURITY.md as tests over the syntax trees."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    file for folder in ("torch_softucb", "experiments", "scripts", "benchmarks") for file in (ROOT / folder).rglob("*.py")
)
FORBIDDEN_CALLS = {"eval", "exec", "compile", "compile_command", "__import__"}
FORBIDDEN_IMPORTS = {"marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle"}
FORBIDDEN_ATTRIBUTES = {
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    "pandas.read_pickle",
    "pd.read_pickle",
    "torch.jit.load",
    "torch.package.PackageImporter",
    "torch.hub.load",
    "os.system",
    "os.popen",
    "numpy.load",
    "np.load",
}
ALLOWED = {
    "experiments/trust/mutant_server.py": {"compile"},  # runs mutants of this package's own source
    "experiments/exam/vowpal.py": {"np.load"},  # with allow_pickle=False, of a file that its caller has just written
}
PICKLE_ERRORS = {"pickle.UnpicklingError"}  # caught where torch.load raises it


def _dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([node.id, *parts]) if isinstance(node, ast.Name) else ""


def _is(node, value):
    return isinstance(node, ast.Constant) and node.value is value


def _loads(node):
    """Return whether a call loads a checkpoint."""
    return isinstance(node, ast.Call) and (
        _dotted(node.func) == "torch.load" or _dotted(node.func).endswith("load_checkpoint")
    )


def _in_call(node):
    name = _dotted(node.func)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if name in FORBIDDEN_CALLS or name in FORBIDDEN_ATTRIBUTES:
        yield name
    if name == "torch.load" and not _is(keywords.get("weights_only"), True):
        yield "torch.load without weights_only=True"
    if "weights_only" in keywords and _is(keywords["weights_only"], False):
        yield "weights_only=False"
    for option in ("shell", "allow_pickle", "trust_remote_code"):
        if option in keywords and not _is(keywords[option], False):
            yield f"{option}=True"


def _in_node(node):
    if isinstance(node, ast.Call):
        yield from _in_call(node)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        yield from (f"import {name}" for name in names if name.split(".")[0] in FORBIDDEN_IMPORTS)
        if isinstance(node, ast.ImportFrom) and node.module == "pickle":
            yield "from pickle import"
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "torch", "yaml", "numpy"):
            yield from (a.name for a in node.names if f"{node.module}.{a.name}" in FORBIDDEN_ATTRIBUTES | {"torch.load"})
    elif isinstance(node, ast.Attribute) and _dotted(node).startswith("pickle.") and _dotted(node) not in PICKLE_ERRORS:
        yield _dotted(node)
    elif isinstance(node, ast.Try) and any(_loads(part) for body in node.body for part in ast.walk(body)):
        again = any(_loads(part) for handler in node.handlers for part in ast.walk(handler))
        if again:
            yield "a second load after one that failed"
    elif isinstance(node, ast.Constant) and node.value in ("--bind_all", "--host=0.0.0.0"):
        yield "TensorBoard for everyone on the network"


def violations(tree):
    """Code that runs a file as a program, or that could."""
    for node in ast.walk(tree):
        yield from (f"line {node.lineno}: {what}" for what in _in_node(node))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_file_is_run_as_a_program(file):
    allowed = ALLOWED.get(str(file.relative_to(ROOT)), set())
    found = list(violations(ast.parse(file.read_text())))
    assert not [violation for violation in found if violation.split(": ", 1)[1] not in allowed]


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
        "os.system('ls')",
        "pandas.read_pickle(path)",
        "exec(text)",
        "load = pickle.Unpickler",
        "from pickle import loads",
        "import marshal",
        "import dill",
        "import cloudpickle",
        "from joblib import load",
        "from torch import load",
        "yaml.unsafe_load(text)",
        "yaml.load(text)",
        "read(path, allow_pickle=True)",
        "Model.load_from_checkpoint(path, weights_only=False)",
        "run(command, shell=shell)",
        "start('tensorboard', '--bind_all')",
        "try:\n    torch.load(p, weights_only=True)\nexcept Exception:\n    torch.load(p, weights_only=True)",
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


def test_the_lock_file_has_a_hash_for_every_pinned_version_but_torch():
    """`make` checks the wheels; the versions are those of constraints.txt."""
    pins = set(re.findall(r"^[A-Za-z0-9_.-]+==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    locked = {line.split()[0]: line.split()[1:] for line in text.splitlines() if not line.startswith("#")}
    assert set(locked) == pins - {"torch==2.13.0"}  # SECURITY.md gives the reason
    for hashes in locked.values():
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", value) for value in hashes)
    assert "--require-hashes" in (ROOT / "Makefile").read_text()


def test_the_page_names_every_boundary():
    text = (ROOT / "SECURITY.md").read_text()
    for word in ("Checkpoints", "Policy files", "Decision logs", "Parquet", "YAML", "c10d", "TensorBoard", "Report"):
        assert word in text
