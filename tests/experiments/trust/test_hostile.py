"""Hostile files run nothing, crash nothing, take little memory, and are refused by name."""

import pytest

from experiments.trust.hostile import hostile
from experiments.trust.hostile_files import corpus

CLEAN = {"executed": 0, "crashes": 0, "accepted": 0, "badly_refused": 0, "memory": 0, "faults": []}


@pytest.mark.slow
def test_a_sample_of_hostile_and_mutated_files_is_refused():
    found = hostile(mutations=60, seed=0, sample=9)
    assert found == {"files": found["files"], "mutations": 60, **CLEAN}
    assert found["files"] > 40


@pytest.mark.long
def test_all_hostile_files_and_1000_mutations_are_refused():
    found = hostile(mutations=1000, seed=1)
    assert found == {"files": found["files"], "mutations": 1000, **CLEAN}


@pytest.mark.slow
def test_there_are_at_least_200_different_files(tmp_path):
    files = corpus(tmp_path)
    assert len({file.path.read_bytes() for file in files}) >= 200
    assert len({(file.file_type, file.name) for file in files}) == len(files)
