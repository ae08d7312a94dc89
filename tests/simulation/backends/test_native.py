"""The native backend: equal to the eager one, its edges, and what it refuses."""

import re
from dataclasses import fields

import pytest
import torch

from tests.simulation.cases import DIM, NUM_ARMS, POLICIES, PROBLEMS, assert_plays_like_eager, needs_compiler, problem_of
from torch_softucb import BanditProblem, LinUCB, NumericalError, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb.errors import CompileWarning
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.simulation.backends import native
from torch_softucb.simulation.backends.eager import Eager
from torch_softucb.simulation.backends.kernel import SOURCE, load_kernel
from torch_softucb.simulation.backends.native import Native
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.state import RUNNING_SUMS, PlayState
from torch_softucb.simulation.trajectory import SCORES, GradientTerms

pytestmark = needs_compiler


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("shape", PROBLEMS)
def test_native_plays_like_eager(name, shape, seeded):
    """Equal estimates after 60 rounds are equal arms in every round; a few rounds among them are played eagerly."""
    policy = POLICIES[name](4, ridge_alpha=0.3, dtype=torch.double)
    assert_plays_like_eager("native", policy, problem_of(shape, seeded), seeded)


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
    problem = BanditProblem(torch.randn(200, 3, generator=seeded(0)), torch.randn(16, 200, generator=seeded(1)))
    simulation = Simulation(LinUCB(3), problem, generator=seeded(1), compile="native")
    simulation.state.root.mul_(1.5)  # widths now shrink too fast
    with pytest.raises(NumericalError, match=r"width\^2 is negative or NaN .*float64"):
        list(simulation.play(200, recorded=lambda t: False))


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


def test_few_trajectories_of_many_arms_are_played_eagerly(seeded):
    policy = LinUCB(64)
    problem = synthetic_problem(num_problems=17, num_arms=300, dim=64, generator=seeded(0))
    assert isinstance(Simulation(policy, problem, compile="native").backend, Native)
    with pytest.warns(CompileWarning, match=r"fewer than 16 trajectories .* got 2 with K \* d = 19200; playing eagerly"):
        assert isinstance(Simulation(policy, problem[:2], compile="native").backend, Eager)


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


# --- orders shared with rounds.cpp


def _enum(name, prefix=""):
    """Members of an enum of rounds.cpp, lower case, without the count at its end."""
    body = re.search(rf"enum {name} : \w+ {{(?://[^\n]*)?(.*?)}};", re.sub(r"//[^\n]*", "", SOURCE.read_text()), re.DOTALL)[
        1
    ]
    return [member.strip().removeprefix(prefix).lower() for member in body.split(",")][:-1]


def _constant(name):
    return int(re.search(rf"constexpr int64_t {name} = (\d+);", SOURCE.read_text())[1])


def test_the_kernel_takes_tensors_and_numbers_in_the_order_of_python():
    tensors = [field.name for field in fields(PlayState) if field.name != "t"]
    assert _enum("StateField") == [{"V": "v_matrix", "b": "b_vector"}.get(name, name) for name in tensors]
    assert tuple(_enum("ProblemField")) == native.KernelProblem._fields
    assert tuple(_enum("Setting")) == native.KernelSettings._fields
    assert tuple(_enum("OutputField")) == native.KernelOutputs._fields
    assert tuple(_enum("Term", "TERM_")) == GradientTerms._fields
    assert tuple(_enum("Sum", "SUM_")) == RUNNING_SUMS
    assert tuple(_enum("Score", "SCORE_")) == SCORES


def test_the_kernel_has_as_many_lanes_as_python_assumes():
    assert _constant("LANES") == native.LANES


def test_the_kernel_knows_every_rule_by_name(seeded):
    names = re.search(r"RULE_NAMES\[RULES\] = {(.*?)}", SOURCE.read_text())[1]
    assert [name.strip().strip('"') for name in names.split(",")] == _enum("Rule")
    means = torch.zeros(1)
    assert {POLICIES[name](DIM).native_rule(means).rule for name in POLICIES} == set(_enum("Rule"))


# --- what the op refuses


def _arguments(seeded, dtype=torch.double):
    simulation = Simulation(
        SoftUCBPolicy(DIM, dtype=dtype), problem_of("masked drift", seeded, dtype), discount=0.9, compile="native"
    )
    noise, state = simulation._noise(0, 3), simulation.state
    state.running_sums = torch.zeros(4, 38, dtype=dtype)
    state.arm_sums = torch.zeros(38, NUM_ARMS, 3, dtype=torch.double)
    outputs = native.KernelOutputs(torch.empty_like(noise), noise.new_zeros(3, 38), noise.new_empty(11, 3, 38))
    return {
        "state": dict(zip([f.name for f in fields(PlayState) if f.name != "t"], state.tensors(), strict=True)),
        "problem": simulation.backend._problem._asdict(),
        "noise": noise,
        "draws": simulation._draws(0, 3),
        "scale": noise.new_ones(1, 1),
        "outputs": outputs._asdict(),
    }


def _call(given, rule="soft_current", settings=(99.0, 0.1, 0.0, 0.9, 1.0)):
    state, problem, outputs = (list(given[name].values()) for name in ("state", "problem", "outputs"))
    load_kernel().op(rule, 0, state, problem, given["noise"], given["draws"], given["scale"], settings, outputs)


CHECKED = [
    *(("state", name) for name in ("mu_hat", "width_sq", "root", "gamma", "running_sums", "V", "b", "arm_sums")),
    *(("problem", name) for name in native.KernelProblem._fields),
    *(("outputs", name) for name in native.KernelOutputs._fields),
    *((None, name) for name in ("noise", "draws", "scale")),
]


@pytest.mark.parametrize("fault", ["shape", "dtype", "layout"])
@pytest.mark.parametrize(("group", "name"), CHECKED)
def test_the_op_checks_every_tensor(group, name, fault, seeded):
    given = _arguments(seeded)
    _call(given)  # fine as it is
    place = given if group is None else given[group]
    tensor = place[name]
    if fault == "layout" and name == "scale":
        pytest.skip("scale is addressed by its strides")
    if fault == "shape":
        place[name] = tensor.new_ones(1, 5) if name == "scale" else tensor[..., :-1].contiguous()
    elif fault == "dtype":
        place[name] = tensor.to(torch.uint8 if tensor.dtype == torch.bool else torch.float32)
    else:
        place[name] = tensor.repeat_interleave(2, -1)[..., ::2]
    # sizes and dtype are read from means and arms, so another tensor is reported where these are wrong
    reported = r"\w+" if name in ("means", "arms") else name
    what = {"shape": "shape", "dtype": "dtype", "layout": "contiguous"}[fault]
    with pytest.raises(RuntimeError, match=rf"rounds: {reported} must .*{what}"):
        _call(given)


@pytest.mark.parametrize(
    ("group", "name", "match"),
    [
        ("state", "mu_hat", "mu_hat must be given"),
        ("state", "V", "V and b must be given together"),
        ("problem", "drift_rate", "rotated_means and drift_rate must be given together"),
        ("outputs", "regret", "regret must be given"),
    ],
)
def test_the_op_names_what_is_missing(group, name, match, seeded):
    given = _arguments(seeded)
    given[group][name] = None
    with pytest.raises(RuntimeError, match=match):
        _call(given)


def test_the_op_refuses_unknown_rules_and_lists_of_another_length(seeded):
    given = _arguments(seeded)
    with pytest.raises(RuntimeError, match=r"rule must be one of soft_current, .*, got softer"):
        _call(given, rule="softer")
    with pytest.raises(RuntimeError, match="settings must have 5 numbers, got 1"):
        _call(given, settings=(1.0,))
    del given["state"]["memory"]
    with pytest.raises(RuntimeError, match="state must have 13 tensors, got 12"):
        _call(given)
