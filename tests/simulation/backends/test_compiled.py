import pytest
import torch

from tests.policies.cases import POLICIES
from tests.simulation.backends.test_native import assert_plays_like_eager, problem_of
from torch_softucb import SoftUCBPolicy, rollout
from torch_softucb.simulation.backends.compiled import _compiled, find_compiler

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")]


@pytest.mark.parametrize("name", POLICIES)
def test_compiled_plays_like_eager(name, seeded):
    """fullgraph=True: a graph break would raise."""
    policy = POLICIES[name](4, ridge_alpha=0.3, dtype=torch.double)
    assert_plays_like_eager(True, policy, problem_of("own arms", seeded), seeded, horizon=30)


@pytest.mark.parametrize("kind", ["shared arms", "masked", "two dims"])
def test_compiled_plays_like_eager_with_other_problems(kind, seeded):
    policy = SoftUCBPolicy(4, beta_init=0.6, dtype=torch.double)
    assert_plays_like_eager(True, policy, problem_of(kind, seeded), seeded, horizon=30)


def test_float32_stays_with_eager(seeded):
    """Over rounds few enough that rounding tips no draw."""
    policy = SoftUCBPolicy(4, beta_init=0.6)
    problem = problem_of("own arms", seeded, torch.float32)
    assert_plays_like_eager(True, policy, problem, seeded, horizon=20, atol=1e-4)


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
