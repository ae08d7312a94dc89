"""The prose standard of CONTRIBUTING.md as a word list: phrases that have a plain equivalent in the field's own terms."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    file
    for pattern in (
        "torch_softucb/**/*.py",
        "torch_softucb/**/*.cpp",
        "scripts/**/*.py",
        "scripts/**/*.yaml",
        "benchmarks/*.py",
    )
    for file in ROOT.glob(pattern)
)
FILES += [*sorted(ROOT.glob("experiments/**/*.py")), *sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"]
FILES.append(ROOT / "CHANGELOG.md")

_UNIT = "round|bandit|user|step|trajectory|decision|request|row|call|panel|feature|second|file|process|segment"
_UNIT += "|arm|reward|problem"
_COUNTED = (
    "regrets?|rewards?|costs?|us|ns|ms|microseconds?|times|once|twice|one|two|three|numbers?|gammas?|betas?|etas?|thetas?|"
    "observations?|trajectories|problems|rounds|items?|decisions?|shares?|draws?|pairs?|messages?|numbers|operations?|"
    r"estimates?|seconds|minutes|forgetting|keeps|\d+"
)
PHRASES = {
    rf"\b(?:{_COUNTED}) an? (?:{_UNIT})\b": "per round, per bandit, per user",
    r"\banew\b": "recomputed, rebuilt, from scratch",
    r"\bof (?:its|their|his|one's) own\b": "own, separate, per-trajectory",
    r"\b(?:says|tells?|told|foretells?|foretold)\b": "returns, reports, predicts, estimates",
    r"\bmemory that (?:is there|asks)|\bask(?:s|ed|ing)? for memory\b": "preallocated / allocating",
    r"\bwhoever\b": "dynamic scheduling, any thread",
    r"\b(?:its|their) company\b": "the other trajectories in the batch",
    r"\blies (?:beside|in|on|below|above)\b|\bstands? in\b|\bstands? beside\b": "is in, is next to",
    r"\b(?:nobody|everybody)\b": "you do not need to; all policies",
    r"\b(?:look(?:s|ed|ing)?) at\b|\blooks? around\b|\blooks_at\b|\blook=": "record, recorded, inputs",
    r"\bkind\b": "name what it is: policy_kwargs, estimator, dtype",
    r"\btall(?:y|ies|ied)\b": "running sums",
    r"\brivals?\b|\bcontenders?\b": "baseline",
    r"\bgames?\b": "setting, problem, rollout",
    r"\bmend(?:s|ed|ing)?\b|\bhard look\b": "fix, review",
    r"\bdisk has\b": "durable",
    r"\bshares of (?:itself|themselves|a beta)\b": "multiplicative steps (log space)",
    r"\bwhere (?:it|they) (?:has|have) been on average\b": "tail averaging",
    r"\bin silence\b": "silently",
    r"\b(?:to|of) the letter\b": "exactly, verbatim",
    r"SPEC|DESIGN|STYLE|\.\./shared": "the repository refers to no file outside itself",
}
ALLOWED = {  # phrase in context: a sense that the list does not mean
    "benchmarks/__main__.py": (r"SOFTUCB_",),
    "CHANGELOG.md": (r"^  \| `",),  # tables of former names
    "experiments/tables.py": (r"^PUBLISHED = ",),  # column names of the published CSV files
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_says_it_in_plain_terms(file):
    found = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        for phrase, instead in PHRASES.items():
            match = re.search(phrase, line, re.IGNORECASE if not phrase.startswith("SPEC") else 0)
            if match and not any(re.search(fine, line) for fine in ALLOWED.get(str(file.relative_to(ROOT)), ())):
                found.append(f"{file.relative_to(ROOT)}:{number}: {match[0]!r}; rather: {instead}")
    assert not found, "\n".join(found)
