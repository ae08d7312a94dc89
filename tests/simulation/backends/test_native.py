import subprocess
import sys

import pytest
import torch

from tests.policies.cases import POLICIES
from torch_softucb import BanditProblem, LinUCB, NumericalError, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.errors import CompileWarning
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.simulation.backends.eager import Eager
from torch_softucb.simulation.backends.kernel import load_kernel
from torch_softucb.simulation.backends.native import Native
from torch_softucb.simulation.engine import Simulation

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
KINDS = ["own arms", "shared arms", "single", "two dims", "masked", "one mask for all"]


def problem_of(kind, seeded, dtype=torch.double):
    problem = synthetic_problem(num_problems=38, num_arms=12, dim=4, dtype=dtype, generator=seeded(0))
    if kind == "shared arms":
        return BanditProblem(problem.arms[0], problem.means, 0.3)
    if kind == "single":
        return problem[2]
    if kind == "two dims":
        std = torch.rand(2, 19, generator=seeded(3)).to(dtype)
        return BanditProblem(problem.arms.view(2, 19, 12, 4), problem.means.view(2, 19, 12), std)
    if kind == "masked":
        mask = torch.rand(38, 12, generator=seeded(1)) > 0.5
        mask[:, 3] = True
        return BanditProblem(problem.arms, problem.means, 0.5, mask)
    if kind == "one mask for all":
        return BanditProblem(problem.arms[0], problem.means, 0.5, torch.arange(12) % 3 > 0)
    return problem


def assert_plays_like_eager(compile, policy, problem, seeded, horizon=60, **kind):
    soft = isinstance(policy, SoftUCBPolicy)
    runs = []
    for mode in (False, compile):
        simulation = Simulation(policy, problem, generator=seeded(9), gradient=soft, compile=mode)
        rounds = list(simulation.play(horizon, recorded=lambda t: t % 23 == 22))
        terms = [sum(part) for part in zip(*(play.gradient for play in rounds), strict=True)] if soft else []
        runs.append([torch.cat([play.regret for play in rounds]), *terms, *simulation.state_dict().values()])
    for eager, fast in zip(*runs, strict=True):
        torch.testing.assert_close(fast, eager, **({"atol": 1e-10, "rtol": 0} | kind))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_native_plays_like_eager(name, kind, seeded):
    """Equal estimates after 60 rounds are equal arms in every round; a few rounds among them are played eagerly."""
    policy = POLICIES[name](4, ridge_alpha=0.3, dtype=torch.double)
    assert_plays_like_eager("native", policy, problem_of(kind, seeded), seeded)


def test_one_beta_a_trajectory(seeded):
    beta = torch.rand(38, generator=seeded(4)).double()
    policy = SoftUCBPolicy(4, beta_init=beta, dtype=torch.double)
    assert_plays_like_eager("native", policy, problem_of("own arms", seeded), seeded)


@pytest.mark.parametrize(("beta", "num_arms", "dim"), [(0.0, 5, 3), (0.5, 1, 1), (2.0, 60, 25)])
def test_edges(beta, num_arms, dim, seeded):
    problem = synthetic_problem(num_problems=17, num_arms=num_arms, dim=dim, dtype=torch.double, generator=seeded(0))
    assert_plays_like_eager("native", SoftUCBPolicy(dim, beta_init=beta, dtype=torch.double), problem, seeded)


@pytest.mark.parametrize("shared", [False, True])
def test_float32_stays_with_float64_over_1024_rounds(shared, seeded):
    """Where rounding did not tip a draw, index and width agree to 1e-4: also at the end, where all errors have met."""
    problem = synthetic_problem(num_problems=256, generator=seeded(0))
    if shared:
        problem = BanditProblem(problem.arms[0], problem.means[:1].expand(256, -1))
    ends = []
    for dtype in (torch.float32, torch.float64):
        mode = "native" if dtype == torch.float32 else False
        policy = SoftUCBPolicy(10, beta_init=0.6, dtype=dtype)
        simulation = Simulation(policy, problem.to(dtype), generator=seeded(1), compile=mode)
        regret = torch.cat([play.regret for play in simulation.play(1024, recorded=lambda t: False)])
        arms = simulation.backend.setup.arms
        decision = policy.decide(arms.estimate(simulation.state, simulation.state.num_observations))
        ends.append((regret.double(), decision))
    (regret, short), (want, long) = ends
    same = (short.width.double() - long.width).abs().amax(-1) < 1e-3  # another arm anywhere moves a width by more
    assert same.float().mean() > 0.3
    for field in ("index", "width", "mu_hat"):
        got, exact = getattr(short, field).double()[same], getattr(long, field)[same]
        torch.testing.assert_close(got.detach(), exact.detach(), atol=1e-4, rtol=0)
    assert (regret.sum(0) - want.sum(0)).mean().abs() < 2  # those that parted played as well


def test_a_trajectory_does_not_depend_on_its_company(seeded):
    problem, policy = problem_of("own arms", seeded), SoftUCBPolicy(4, dtype=torch.double)

    def play(part):
        return rollout(policy, part, horizon=40, generator=seeded(5), compile="native").regret

    whole = play(problem)
    torch.testing.assert_close(torch.cat([play(problem[:5]), play(problem[5:])], 1), whole, atol=1e-12, rtol=0)


def test_threads_change_nothing(seeded):
    problem, policy, runs = problem_of("own arms", seeded), SoftUCBPolicy(4, dtype=torch.double), []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(rollout(policy, problem, horizon=40, generator=seeded(5), compile="native").regret)
    torch.set_num_threads(before)
    assert runs[0].equal(runs[1])


def test_records_and_gradient_through_rollout(seeded):
    problem, policy = problem_of("masked", seeded), SoftUCBPolicy(4, beta_init=0.6, dtype=torch.double)
    settings = {"horizon": 50, "gradient": True, "record": ["arm", "coverage", "gamma"], "record_every": 7}
    eager, fast = (rollout(policy, problem, generator=seeded(2), compile=mode, **settings) for mode in (False, "native"))
    assert fast.records["arm"].equal(eager.records["arm"])
    assert len(fast.records["arm"]) == 8
    for got, want in zip(fast.gradient, eager.gradient, strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=0)
    torch.testing.assert_close(fast.regret, eager.regret, atol=1e-10, rtol=0)


def test_progress_ends_at_the_horizon(seeded):
    seen = []
    problem, policy = problem_of("own arms", seeded), LinUCB(4, dtype=torch.double)
    rollout(policy, problem, horizon=40, generator=seeded(0), compile="native", progress=lambda *a: seen.append(a))
    assert seen[-1] == (40, 40)


def test_numbers_that_cannot_be_right_raise(seeded):
    arms = torch.randn(200, 3, generator=seeded(0)) * 1e4
    problem = BanditProblem(arms, torch.randn(16, 200, generator=seeded(1)))
    with pytest.raises(NumericalError, match=r"width\^2 is negative or NaN .*float64"):
        rollout(LinUCB(3), problem, horizon=200, generator=seeded(1), compile="native")


class Uniform(BanditPolicy):
    def decide(self, estimate, *, mask=None, bandit=None):
        return Decision(torch.ones_like(estimate.mu_hat) / estimate.mu_hat.shape[-1], *estimate[:1], *estimate[:2])


@pytest.mark.parametrize(
    ("policy", "settings", "match"),
    [
        (Uniform(4), {"compile": "native"}, "Uniform has no native kernel"),
        (LinUCB(4), {"compile": "native", "gradient": True}, "gradient.*LinUCB"),
        (LinUCB(4), {"compile": "fast"}, "compile must be False, True .* or 'native'"),
        (LinUCB(4), {"compile": 1}, "compile must be False"),
    ],
)
def test_what_cannot_be_done_is_said(policy, settings, match, seeded):
    with pytest.raises((TypeError, ValueError), match=match):
        rollout(policy, problem_of("own arms", seeded, torch.float32), horizon=5, **settings)


@pytest.mark.parametrize("compile", [True, "native"])
def test_without_a_compiler_it_warns_once_and_plays_eagerly(compile, seeded, monkeypatch):
    monkeypatch.setattr("torch_softucb.simulation.backends.compiled.find_compiler", lambda: None)
    monkeypatch.setattr("torch_softucb.simulation.backends.kernel.find_compiler", lambda: None)
    load_kernel.cache_clear()
    problem, policy = problem_of("own arms", seeded), LinUCB(4, dtype=torch.double)
    with pytest.warns(CompileWarning, match=r"C\+\+ compiler.*playing eagerly") as caught:
        got = rollout(policy, problem, horizon=9, generator=seeded(1), compile=compile)
    assert len(caught) == 1
    load_kernel.cache_clear()
    assert got.regret.equal(rollout(policy, problem, horizon=9, generator=seeded(1)).regret)


def test_few_trajectories_of_many_arms_are_played_eagerly(seeded):
    policy = LinUCB(64)
    problem = synthetic_problem(num_problems=17, num_arms=300, dim=64, generator=seeded(0))
    assert isinstance(Simulation(policy, problem, compile="native").backend, Native)
    with pytest.warns(CompileWarning, match=r"fewer than 16 trajectories .* got 2 with K \* d = 19200; playing eagerly"):
        assert isinstance(Simulation(policy, problem[:2], compile="native").backend, Eager)


def test_import_builds_nothing():
    script = "import sys, torch_softucb; print('torch.utils.cpp_extension' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_v_that_cannot_be_factorised_is_told_in_a_long_stretch_too(seeded):
    """Float32, fewer arms than dims, long features, next to no ridge: single rounds fail, and later ones recover."""
    problem = synthetic_problem(num_problems=24, num_arms=6, dim=8, generator=seeded(0))
    problem = BanditProblem(20 * problem.arms, problem.means, 0.5)
    policy = SoftUCBPolicy(8, ridge_alpha=1e-3, coldness="smooth")

    def told(alone, stretch):
        simulation = Simulation(policy, alone, generator=seeded(1), discount=0.99, compile="native")
        try:
            for _ in simulation.play(200, recorded=lambda t: False, stretch=stretch):
                pass
        except NumericalError:
            return True
        return False

    by_round, at_once = ([told(problem[i : i + 1], stretch) for i in range(24)] for stretch in (1, None))
    assert any(by_round)
    assert at_once == by_round
