"""R17: would the tests notice if the code were wrong? Mutants of three parts of the package against their tests."""

import hashlib
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from experiments.tables import Rows, save
from experiments.trust.goal import Result, Size, goal
from experiments.trust.mutant_server import ROOT, MutantServer
from experiments.trust.mutations import Mutant, mutants, mutated
from experiments.trust.policies import every_policy

REASONS = Path(__file__).with_name("survivors.toml")


class Part(NamedTuple):
    """A part of the package.

    Attributes:
        folder: its folder within the package.
        score: share of mutants that the tests have to notice.
        sample: number of mutants in a full run.
        shared: tests that run on every file of the part, after the tests of the file's own name and its doctests.
    """

    folder: str
    score: float
    sample: int
    shared: tuple[str, ...]


_POLICIES = (  # tests of several policies at once that take a second
    *("bad_input", "base", "decision", "edge_cases", "estimates", "fast_path", "lazy_decision", "learnable", "numerics"),
    *("rows", "updates"),
)
_LOG = (  # tests of the log that take at most 3 seconds
    *("codec", "codec_properties", "frames", "journal", "logged_decisions", "manifests", "queue", "reader", "salvage"),
    *("segment_reader", "segments", "used_ids", "writer", "foreign_table", "parquet_bytes"),
)
PARTS = (
    Part("functional", 0.85, 100, ("tests/functional/test_bad_input.py", "tests/functional/test_batch_shapes.py")),
    Part("policies", 0.80, 150, tuple(f"tests/policies/test_{name}.py" for name in _POLICIES)),
    Part("recommend/log", 0.90, 110, tuple(f"tests/recommend/log/test_{name}.py" for name in _LOG)),
)
_CONTRACT = "tests/policies/contract"
_USUAL = "lin_ucb or exp3 or soft_ucb_lagged or soft_ucb_schedule"  # policies used where a file belongs to all


class Case(NamedTuple):
    """One mutant and the tests that should notice it."""

    part: Part
    file: Path
    mutant: Mutant
    tests: list[list[str]]

    @property
    def key(self) -> tuple[str, str, str]:
        """What a reason in ``survivors.toml`` refers to: file, line and change."""
        return (self.file.relative_to(ROOT / "torch_softucb").as_posix(), self.mutant.line, self.mutant.change)


def stages_of(part: Part, file: Path) -> list[list[str]]:
    """Return stages of tests: those of the file's own name and its doctests, those that the part shares, the contract."""
    module = file.relative_to(ROOT)
    own = Path("tests", *module.parts[1:-1], f"test_{file.stem}.py")
    properties = own.with_name(f"test_{file.stem}_properties.py")
    first = [str(test) for test in (own, properties) if (ROOT / test).exists()]
    shared = [test for test in part.shared if (ROOT / test).exists() and test not in first]
    stages = [[*first, str(module)] if first else [], shared]  # input checks are tested through the functions that call them
    if part.folder == "policies" and (ROOT / _CONTRACT).exists():
        named = [name for name, _ in every_policy() if name.startswith(file.stem.split("_elimination")[0])]
        stages.append([_CONTRACT, "-k", f"({' or '.join(named) if named else _USUAL}) and f64 and (single or batch)"])
    return [stage for stage in stages if stage]


def sampled(part: Part, size: Size, count: int | None = None) -> list[Case]:
    """Draw mutants of a part: those with the smallest hashes of seed, file, line and change.

    An edit of a file changes the sample only by the mutants of the edited lines, so that reasons stay valid.
    """
    ranked = []
    for file in sorted((ROOT / "torch_softucb" / part.folder).rglob("*.py")):
        if file.name != "__init__.py":
            tests = stages_of(part, file)
            repeats: Counter[tuple[str, str, str]] = Counter()  # the same change of the same text, elsewhere in the file
            for mutant in mutants(file.read_text()):
                case = Case(part, file, mutant, tests)
                ranked.append((hashlib.sha256(repr((size.seed, *case.key, repeats[case.key])).encode()).digest(), case))
                repeats[case.key] += 1
    ranked.sort(key=lambda pair: pair[0])
    return [case for _, case in ranked[: size.of(part.sample, 4) if count is None else count]]


def reasons() -> dict[tuple[str, str, str], str]:
    """Return why survivors are no gap in the tests, by file, line and change."""
    entries = tomllib.loads(REASONS.read_text()).get("survivor", []) if REASONS.exists() else []
    return {(entry["file"], entry["line"], entry["change"]): entry["reason"] for entry in entries}


def judged(cases: list[Case], seconds: dict[Path, float], servers: int = 2) -> Iterator[tuple[Case, str]]:
    """Run the tests of every case; yields the outcome "failed" or "timeout" (noticed) or "passed" (survived).

    Tests time out at five times what they take without a change: a slow but unnoticed mutant must not count as noticed.
    """
    pool = [MutantServer() for _ in range(servers)]
    try:
        free = list(pool)

        def run(case: Case) -> tuple[Case, str]:
            server = free.pop()
            try:
                source, limit = mutated(case.file.read_text(), case.mutant), max(20.0, 5 * seconds[case.file])
                return case, server.ask(case.file, source, case.tests, limit)
            finally:
                free.append(server)

        with ThreadPoolExecutor(servers) as threads:
            yield from threads.map(run, cases)
    finally:
        for server in pool:
            server.close()


def unmutated(cases: list[Case]) -> tuple[list[str], dict[Path, float]]:
    """Return the files whose tests fail without any change, and the seconds that the tests of each file take.

    All mutants of a file whose tests fail anyway would count as noticed.
    """
    server = MutantServer()
    broken, seconds = [], {}
    try:
        for file, tests in sorted({case.file: case.tests for case in cases}.items()):
            start = time.monotonic()
            if server.ask(file, None, tests, limit=600.0) != "passed":
                broken.append(file.name)
            seconds[file] = time.monotonic() - start
    finally:
        server.close()
    return broken, seconds


@goal(
    "R17",
    claim="""Tests notice at least 85% of small errors put into functional/, 80% in policies/ and 90% in
    recommend/log/; each error that they do not notice is listed with the reason.""",
    method="""Mutation testing. A random sample of one-place changes (another comparison, operator or constant, a
    negated condition, a missing keyword argument, check or call, None returned) is applied to the source, one at a
    time. For each the tests of that file are run (its own test file, its doctests and the tests shared by its folder;
    a file of input checks has none of its name: the shared tests run). Code that a test runs in another process is
    not changed there. Tests that take five times as long as without the
    change count as failed. The score is the share of changes for which a test fails, without those that provably change
    nothing; the share with them is given too. The sample is fixed by the seed, and tests were added for survivors in
    it: the share of all possible changes that tests notice is lower. `mutants.csv` lists the survivors with reasons.""",
    minutes=25,
)
def mutation_score(size: Size) -> Result:
    parts = size.of(PARTS, PARTS[:1])  # the tests of the others take minutes without any change
    return measure(size, parts, Path("results/quick" if size.quick else "results"))


def measure(size: Size, parts: tuple[Part, ...], out: Path, count: int | None = None) -> Result:
    """Measure the scores of some parts and write the survivors to ``mutants.csv`` in ``out``."""
    known = reasons()
    rows: Rows = []
    texts, met = [], True
    for part in parts:
        cases = sampled(part, size, count)
        broken, seconds = unmutated(cases)
        noticed = equivalent = unexplained = 0
        start = time.monotonic()
        for case, outcome in judged(cases, seconds):
            if outcome != "passed":
                noticed += 1
                continue
            file, line, change = case.key
            reason = known.get(case.key, "")
            equivalent += reason.startswith("equivalent")
            unexplained += not reason
            row: dict[str, Any] = {"file": file, "line": line, "change": change, "reason": reason}
            rows.append(row)
        score = noticed / (len(cases) - equivalent)
        met &= not broken and (size.quick or (score >= part.score and not unexplained))  # a few mutants give no score
        texts.append(
            f"{part.folder} {score:.1%} of {len(cases) - equivalent} ({noticed / len(cases):.1%} of all {len(cases)} with "
            f"the {equivalent} equivalent ones, {unexplained} survivors "
            f"without a reason{', tests fail without a change: ' + ', '.join(broken) if broken else ''})"
        )
        print(f"{texts[-1]}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if rows:
        out.mkdir(parents=True, exist_ok=True)
        save(rows, out, "mutants", {"command": "make trust", "seed": size.seed, "parts": [part.folder for part in parts]})
    return Result(met, "; ".join(texts))
