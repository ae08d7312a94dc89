"""The mutants of a file, and that tests are seen to notice them."""

import pytest

from experiments.trust.goal import Size
from experiments.trust.mutant_server import ROOT, MutantServer
from experiments.trust.mutants import PARTS, sampled, stages_of
from experiments.trust.mutations import mutants, mutated

SOURCE = '''
def f(x, device=None):
    """Docstring 1."""
    check_f(x, device=device, low=0)
    if x is None:
        raise ValueError(f"{x + 1}")
    return -x < 2 and not x
'''


def test_each_operator_once():
    changes = [mutant.change for mutant in mutants(SOURCE)]
    assert changes == [
        "without the call of check_f",
        "without low=",
        "0 -> 1",
        "Is -> IsNot",
        "return None",
        "And -> Or",
        "Lt -> LtE",
        "without USub",
        "2 -> 3",
        "without Not",
    ]


def test_a_mutant_differs_in_one_place():
    texts = [mutated(SOURCE, mutant) for mutant in mutants(SOURCE)]
    assert len(set(texts)) == len(texts)
    assert "return -x <= 2 and (not x)" in texts[6]
    assert "Docstring 1." in texts[6]


def test_the_sample_depends_on_the_seed_only():
    one, two, other = (sampled(PARTS[0], Size(seed=seed), 20) for seed in (0, 0, 1))
    assert one == two != other


def test_a_file_of_checks_is_tested_by_the_shared_tests():
    assert stages_of(PARTS[0], ROOT / "torch_softucb/functional/_checks.py") == [list(PARTS[0].shared)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regret", "scales"])  # pytest itself is the first to import the second one
def test_a_server_notices_a_mutant_and_only_a_mutant(name):
    file = ROOT / "torch_softucb" / "functional" / f"{name}.py"
    source = file.read_text()
    server = MutantServer()
    try:
        tests = stages_of(PARTS[0], file)[:1]
        assert server.ask(file, None, tests) == "passed"
        assert server.ask(file, source, tests) == "passed"
        returned = next(mutant for mutant in mutants(source) if mutant.change == "return None")
        assert server.ask(file, mutated(source, returned), tests) == "failed"
        assert server.ask(file, "while True:\n    pass", tests, limit=2.0) == "timeout"
        assert server.ask(file, None, tests) == "passed"
    finally:
        server.close()
