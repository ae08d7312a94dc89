"""The compiled backend: one graph, equal to the eager round."""

import pytest
import torch

from tests.simulation.cases import DIM, NUM_ARMS, POLICIES, assert_plays_like_eager, needs_compiler, problem_of
from torch_softucb import SoftUCBPolicy, rollout
from torch_softucb.errors import CompileWarning
from torch_softucb.policies import LinPHE
from torch_softucb.simulation.backends.compiled import _compiled, find_compiler

pytestmark = needs_compiler


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_compiled_plays_like_eager(name, seeded):
    """fullgraph=True: a graph break would raise."""
    policy = POLICIES[name](4, ridge_alpha=0.3, dtype=torch.double)
    assert_plays_like_eager(True, policy, problem_of("own arms", seeded), seeded, horizon=30)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["shared arms", "masked", "two dims"])
def test_compiled_plays_like_eager_with_other_problems(shape, seeded):
    policy = SoftUCBPolicy(4, beta_init=0.6, dtype=torch.double)
    assert_plays_like_eager(True, policy, problem_of(shape, seeded), seeded, horizon=30)


@pytest.mark.slow
def test_float32_stays_with_eager(seeded):
    """Over rounds few enough that rounding tips no draw."""
    policy = SoftUCBPolicy(4, beta_init=0.6)
    problem = problem_of("own arms", seeded, torch.float32)
    assert_plays_like_eager(True, policy, problem, seeded, horizon=20, atol=1e-4)


@pytest.mark.slow
def test_no_compilation_for_another_batch_horizon_or_beta(seeded):
    torch._dynamo.reset()
    _compiled.cache_clear()
    problem = problem_of("own arms", seeded)

    def play(count, horizon, beta):
        policy = SoftUCBPolicy(4, beta_init=beta, dtype=torch.double)
        rollout(policy, problem[:count], horizon=horizon, generator=seeded(1), gradient=True, compile=True)

    play(38, 5, 0.6)
    play(20, 5, 0.6)  # the batch becomes a symbol
    with torch.compiler.set_stance("fail_on_recompile"):
        for count, horizon, beta in [(30, 5, 0.6), (7, 9, 0.6), (38, 12, 0.1), (12, 40, 2.0)]:
            play(count, horizon, beta)


@pytest.mark.slow
def test_a_policy_with_a_memory_plays_like_eager(seeded):
    policy = LinPHE(DIM, NUM_ARMS, dtype=torch.double)
    assert_plays_like_eager(True, policy, problem_of("own arms", seeded), seeded, horizon=30)


def test_scores_are_computed_eagerly_after_a_warning(seeded):
    problem, policy = problem_of("own arms", seeded), SoftUCBPolicy(DIM, coldness="smooth", dtype=torch.double)
    settings = {"horizon": 6, "scores": True}
    with pytest.warns(CompileWarning, match=r"compile=True does not compute scores .*; playing eagerly") as caught:
        got = rollout(policy, problem, generator=seeded(1), compile=True, **settings)
    assert len(caught) == 1
    assert got.regret.equal(rollout(policy, problem, generator=seeded(1), **settings).regret)


def test_find_compiler_reads_cxx(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert find_compiler() is None
