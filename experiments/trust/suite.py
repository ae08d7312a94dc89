"""R14, R18, R19, R20: goals that are tests of the test suite, run and counted here."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from experiments.trust.goal import Result, Size, goal

ROOT = Path(__file__).parents[2]


def run_tests(*arguments: str, minutes: float = 15.0) -> tuple[int, int, str]:
    """Run tests in a new process: how many passed, how many did not, and the first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * minutes, env=dict(os.environ))
    lines = done.stdout.strip().splitlines() or [""]
    numbers = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|errors?)", lines[-1])}
    failed = numbers.get("failed", 0) + numbers.get("error", 0) + numbers.get("errors", 0)
    first = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "")
    if done.returncode not in (0, 1):
        return numbers.get("passed", 0), max(failed, 1), first or lines[-1]
    return numbers.get("passed", 0), failed, first


def _test_files() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


def _decorated(file: Path, name: str) -> list[str]:
    """Return the functions of a file that carry a decorator of this name."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list]
            found += [node.name] * (name in names)
    return found


def _names(files: list[Path]) -> list[str]:
    return [str(file.relative_to(ROOT)) for file in files]


@goal(
    "R14",
    claim="""Every statistical test states its false-alarm rate (at most 1e-6) and its power, and passes for all seeds
    0 to 99.""",
    method="""Statistical tests are those with the decorator `every_seed` of tests/statistics_checks.py, which gives them
    the false-alarm rate 1e-6 and the seeds 0 to 99. They run together with the other tests of their files, which show
    that a stated error is found.""",
    minutes=20,
)
def all_seeds(size: Size) -> Result:
    counted = {file: _decorated(file, "every_seed") for file in _test_files()}
    files, number = [file for file, names in counted.items() if names], sum(map(len, counted.values()))
    if not files:
        return Result(False, "there are no statistical tests with seeds 0 to 99")
    passed, failed, first = run_tests(*_names(files), "-m", size.of("long or not long", "not long and not slow"))
    met = failed == 0 and passed >= number * size.of(100, 1)
    seeds = size.of("seeds 0 to 99", "seed 0")
    return Result(met, f"{number} statistical tests, {seeds}: {passed:,} cases passed, {failed} failed {first}".strip())


@goal(
    "R18",
    claim="""At least 40 properties hold for 1,000 random examples each, and a state machine over head and log (serve,
    feedback in any order, drop, seal, crash, restart, merge) agrees with a plain Python model in 200 runs x 50 steps.""",
    method="""Properties are functions with hypothesis's @given, counted in the syntax trees of tests/; they and the
    state machine run with the hypothesis profile `long`.""",
    minutes=20,
)
def properties(size: Size) -> Result:
    counted = {file: _decorated(file, "given") for file in _test_files()}
    number = sum(map(len, counted.values()))
    machines = [file for file in _test_files() if "RuleBasedStateMachine" in file.read_text()]
    files = sorted({*(file for file, names in counted.items() if names), *machines})
    profile = size.of(["--hypothesis-profile=long"], [])
    select = ["-m", size.of("long or not long", "not long and not slow")]
    chosen = [f"{file.relative_to(ROOT)}::{name}" for file, names in counted.items() for name in names]
    targets = _names(machines) + [c for c in chosen if not any(c.startswith(m + "::") for m in _names(machines))]
    passed, failed, first = run_tests(*targets, *profile, *select) if files else (0, 0, "")
    met = number >= 40 and bool(machines) and failed == 0 and passed > 0
    text = f"{number} properties, {len(machines)} state machines; {passed} tests passed, {failed} failed {first}"
    return Result(met, text.strip())


@goal(
    "R19",
    claim="""One contract of at least 30 checks holds for every policy, in float32 and float64, with 0, 1 and 2 batch
    dimensions.""",
    method="""The checks (inputs untouched, pure `forward`, permutations, NaN, one arm, non-contiguous inputs,
    `deepcopy`, `.to`, `state_dict`, `torch.compile`, `vmap` and others) are the test functions under
    tests/policies/contract.""",
    minutes=15,
)
def contract(size: Size) -> Result:
    folder = ROOT / "tests" / "policies" / "contract"
    files = sorted(folder.glob("test_*.py")) or [ROOT / "tests" / "policies" / "test_contract.py"]
    trees = [ast.parse(file.read_text()) for file in files if file.exists()]
    checks = {
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    passed, failed, first = run_tests(
        *_names(files), *size.of([], ["-m", "not slow and not long", "-k", "f64-single and (soft_ucb or lin)"])
    )
    met = len(checks) >= 30 and failed == 0 and passed > 0
    return Result(met, f"{len(checks)} checks, {passed:,} cases passed, {failed} failed {first}".strip())


@goal(
    "R20",
    claim="""Nothing in the code can run what a file contains: no pickle, eval or unsafe load and no fallback to one;
    dependencies have floors without known vulnerabilities and all but torch are pinned by SHA-256 (SECURITY.md gives
    the reason); the trust boundaries are documented.""",
    method="""The tests of tests/test_security.py read the syntax trees of the package, setup.cfg, constraints.txt,
    requirements.lock and SECURITY.md.""",
)
def security(size: Size) -> Result:
    passed, failed, first = run_tests("tests/test_security.py")
    pinned = set(re.findall(r"^[\w.-]+==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    hashed = set(re.findall(r"^([\w.-]+==\S+) \\\n +--hash=sha256:", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    without = sorted(pinned - hashed)
    page = (ROOT / "SECURITY.md").exists()
    met = failed == 0 and passed > 0 and all(name.startswith("torch==") for name in without) and page
    text = f"{passed} tests passed, {failed} failed {first}; {len(pinned)} pinned packages, without hash {without}; "
    return Result(met, " ".join((text + ("SECURITY.md is there" if page else "no SECURITY.md")).split()))
