"""The native backend for changing candidates: its edges, the orders it shares with C++, and what it refuses."""

import re

import pytest
import torch

from tests.simulation.cases import needs_compiler
from tests.simulation.contextual_cases import POLICIES, WORLDS, D, play, policy_of, prior_of, world_of
from torch_softucb import AutoSoftUCB, GaussianPrior, NumericalError, SoftUCBPolicy, contextual_problem, rollout
from torch_softucb.errors import CompileWarning
from torch_softucb.policies.scales import SUM_X, SUMMARY_START, ScaleMemory
from torch_softucb.simulation.backends.eager import Eager
from torch_softucb.simulation.backends.kernel import HEADERS, SOURCE, load_kernel
from torch_softucb.simulation.backends.native import KernelOutputs, KernelSettings
from torch_softucb.simulation.backends.native_contextual import MEMORY, KernelShape, KernelWorld, NativeContextual
from torch_softucb.simulation.contextual_state import WAITING
from torch_softucb.simulation.engine import Simulation

pytestmark = needs_compiler


def _large(count, seeded, *, items=30, dim=4, dtype=D, **settings):
    arms, theta = (
        torch.randn(items, dim, generator=seeded(0), dtype=D),
        torch.randn(count, dim, generator=seeded(1), dtype=D),
    )
    return contextual_problem(arms.to(dtype), theta=theta.to(dtype), **({"candidates": 6} | settings))


def _assert_same(policy, world, seeded, horizon=40, **settings):
    eager, native = (
        rollout(policy, world, horizon=horizon, generator=seeded(2), compile=way, **settings) for way in (False, "native")
    )
    torch.testing.assert_close(native.regret, eager.regret, atol=1e-10, rtol=0)
    for name in eager.scores:
        torch.testing.assert_close(native.scores[name], eager.scores[name], atol=1e-9, rtol=1e-9, msg=name)
    for got, want in zip(native.gradient or (), eager.gradient or (), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)
    if eager.situation is not None:
        torch.testing.assert_close(native.situation, eager.situation, atol=1e-9, rtol=1e-9)
    if eager.scales is not None:
        torch.testing.assert_close(tuple(native.scales), tuple(eager.scales), atol=1e-9, rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize("count", [1, 16, 17, 38])
@pytest.mark.parametrize("delay", [0, 2])
def test_tiles_that_are_not_full(count, delay, seeded):
    _assert_same(SoftUCBPolicy(4, coldness="smooth", dtype=D), _large(count, seeded, delay=delay), seeded)


@pytest.mark.parametrize(("items", "dim", "slots"), [(1, 1, 1), (9, 1, 9), (40, 7, 8), (40, 8, 17), (25, 19, 3)])
@pytest.mark.parametrize("auto", [False, True])
def test_sizes_that_do_and_do_not_fill_vectors(items, dim, slots, auto, seeded):
    policy = SoftUCBPolicy.auto(dim, dtype=D) if auto else SoftUCBPolicy(dim, coldness="smooth", dtype=D)
    _assert_same(policy, _large(5, seeded, items=items, dim=dim, candidates=slots), seeded, horizon=20)


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("world", ["sets", "masks", "late", "random delays", "drift", "own items"])
@pytest.mark.parametrize("policy", ["current", "smooth", "auto", "ScheduleBeta", "SituationBeta"])
def test_scores_gradients_situations_and_scales_are_the_eager_ones(policy, world, with_prior, seeded):
    """With recorded rounds among them, which are played eagerly."""
    start = prior_of() if with_prior else None
    settings = {"scores": True, "gradient": True, "record": ["coverage"], "record_every": 7, "start": start}
    _assert_same(policy_of(policy), world_of(world), seeded, **settings)


def test_one_beta_per_trajectory(seeded):
    beta = torch.rand(4, generator=seeded(4), dtype=D)
    _assert_same(SoftUCBPolicy(3, beta_init=beta, coldness="smooth", dtype=D), world_of("random delays"), seeded)
    with pytest.raises(ValueError, match="beta"):
        rollout(
            SoftUCBPolicy(3, beta_init=beta[:3], coldness="smooth", dtype=D), world_of("late"), horizon=2, compile="native"
        )


def test_threads_change_nothing(seeded):
    world, runs, before = _large(70, seeded, delay=torch.tensor([0.5, 0.3])), [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(rollout(SoftUCBPolicy(4, dtype=D), world, horizon=30, generator=seeded(5), compile="native").regret)
    torch.set_num_threads(before)
    assert runs[0].equal(runs[1])


@pytest.mark.parametrize("auto", [False, True])
def test_float32_plays_as_well_as_float64(auto, seeded):
    """Rounding tips a draw now and then; the others agree."""
    regrets = []
    for dtype in (torch.float32, D):
        policy = SoftUCBPolicy.auto(4, dtype=dtype) if auto else SoftUCBPolicy(4, coldness="smooth", dtype=dtype)
        world = _large(64, seeded, dtype=dtype)
        regrets.append(rollout(policy, world, horizon=200, generator=seeded(3), compile="native").regret.sum(0).double())
    assert (regrets[0] - regrets[1]).abs().lt(1e-2).float().mean() > 0.8


@pytest.mark.parametrize("compile", [False, "native"])
def test_a_beta_that_overflows_raises_in_the_first_block(compile, seeded):
    policy = SoftUCBPolicy(4, beta_init=3e38, coldness="smooth")
    with pytest.raises(NumericalError, match=r"mu_hat \+ beta \* width must be finite"):
        rollout(policy, _large(5, seeded, dtype=torch.float32), horizon=5, generator=seeded(0), compile=compile)


def test_a_v_that_is_not_positive_definite_is_reported(seeded):
    simulation = Simulation(
        SoftUCBPolicy(4, refresh_every=3, dtype=D), _large(20, seeded), generator=seeded(1), compile="native"
    )
    simulation.state.statistics[7, :16] = -torch.eye(4, dtype=D).flatten()
    with pytest.raises(NumericalError, match="V is not positive definite"):
        list(simulation.play(10, recorded=lambda t: False))


# --- which backend


def test_pooled_scales_and_few_trajectories_of_many_candidates_are_played_eagerly(seeded):
    world = _large(4, seeded)
    with pytest.warns(CompileWarning, match="does not pool the scales of several bandits"):
        assert isinstance(Simulation(AutoSoftUCB(4, rows_per_group=None, dtype=D), world, compile="native").backend, Eager)
    many = _large(2, seeded, items=5000)
    assert isinstance(Simulation(SoftUCBPolicy(4, dtype=D), many, compile="native").backend, NativeContextual)
    all_of_them = _large(2, seeded, items=5000, candidates=None)
    with pytest.warns(CompileWarning, match=r"fewer than 16 trajectories .* got 2 with K \* d = 20000"):
        assert isinstance(Simulation(SoftUCBPolicy(4, dtype=D), all_of_them, compile="native").backend, Eager)


@pytest.mark.parametrize("world", WORLDS)
def test_blocks_are_long_where_beta_allows_it(world):
    alike = world not in ("random delays", "lost rewards", "lost or at once")
    sizes_vary = world.startswith("sets")
    simulations = {
        name: Simulation(policy_of(name), world_of(world), compile="native") for name in ("smooth", "auto", "ScheduleBeta")
    }
    longest = {name: simulation.backend.max_rounds for name, simulation in simulations.items()}
    assert longest["smooth"] is None
    assert longest["ScheduleBeta"] == (None if alike else 1)
    assert longest["auto"] == (1 if sizes_vary or not alike else None)


# --- orders shared with rounds.cpp and contextual.h


def _enum(name, prefix=""):
    """Members of an enum, lower case, without the count at its end."""
    text = "\n".join(re.sub(r"//[^\n]*", "", file.read_text()) for file in (SOURCE, *HEADERS))
    body = re.search(rf"enum {name} : \w+ {{(.*?)}};", text, re.DOTALL)[1]
    return [member.strip().removeprefix(prefix).lower() for member in body.split(",")]


def test_the_kernel_takes_tensors_and_numbers_in_the_order_of_python():
    names = {"item_means": "means", "item_base": "base", "item_rotated": "rotated_means", "item_drift_rate": "drift_rate"}
    assert tuple(names.get(name, name) for name in _enum("WorldField")[:-1]) == KernelWorld._fields
    assert tuple(_enum("Shape", "SHAPE_")[:-1]) == KernelShape._fields
    assert tuple(_enum("Memory", "MEMORY_")) == MEMORY
    assert tuple(_enum("Waiting", "WAITING_")[:-1]) == WAITING
    slots = _enum("ScaleSlot", "SLOT_")
    assert tuple(slots[:-1]) == ScaleMemory._fields[: SUMMARY_START + 1]
    assert slots[-1] == f"sum_x = {SUM_X}"


# --- what the ops refuse


def _arguments():
    """Arguments of the op for a world that uses all of them."""
    n, count, items, dim, slots = 3, 5, 7, 2, 4
    memory = SUM_X + 2 * dim
    policy = SoftUCBPolicy.auto(dim, dtype=D, prior=GaussianPrior.ridge(dim))
    policy.reset(batch_shape=(count,))
    return {
        "world": {
            "items": torch.rand(items, dim, dtype=D),
            "means": torch.rand(count, items, dtype=D),
            "base": torch.rand(items, dtype=D),
            "rotated_means": torch.rand(count, items, dtype=D),
            "drift_rate": torch.rand(count, dtype=D),
            "candidates": torch.randint(items, (n, count, slots), dtype=torch.int32),
            "delays": torch.randint(3, (n, count)),
        },
        "state": {
            "statistics": policy.statistics.clone(),
            "waiting": torch.zeros(count, 3, 3, dtype=D),
            "mu_hat": torch.zeros(count, dtype=D),
            "width": torch.zeros(count, dtype=D),
        },
        "outputs": KernelOutputs(
            torch.empty(n, count, dtype=D), torch.zeros(3, count, dtype=D), torch.empty(11, n, count, dtype=D)
        )._asdict(),
        "noise": torch.rand(n, count, dtype=D),
        "draws": torch.rand(n, count, dtype=D),
        "scale": torch.ones(1, 1, dtype=D),
        "settings": KernelSettings(99.0, 0.1, 0.0, 0.9, 1.0),
        "shape": KernelShape(
            memory=2, memory_size=memory, slots=3, fixed_delay=-1, refresh_every=64, anchors=1, bernoulli=0
        )._asdict(),
        "start": 0,
    }


def _call(given, rule="soft_smooth"):
    world, state, outputs, shape = (list(given[name].values()) for name in ("world", "state", "outputs", "shape"))
    load_kernel().contextual(
        rule, given["start"], world, state, given["noise"], given["draws"], given["scale"], given["settings"], shape, outputs
    )


CHECKED = [
    *(("world", name) for name in KernelWorld._fields),
    *(("state", name) for name in ("statistics", "waiting", "mu_hat", "width")),
    *(("outputs", name) for name in KernelOutputs._fields),
    *((None, name) for name in ("noise", "draws", "scale")),
]


@pytest.mark.parametrize("fault", ["shape", "dtype", "layout"])
@pytest.mark.parametrize(("group", "name"), CHECKED)
def test_the_op_checks_every_tensor(group, name, fault):
    given = _arguments()
    _call(given)  # fine as it is
    place = given if group is None else given[group]
    tensor = place[name]
    if fault == "layout" and name == "scale":
        pytest.skip("scale is addressed by its strides")
    if fault == "shape":
        place[name] = tensor.new_ones(1, 3) if name == "scale" else tensor[:-1].contiguous()
    elif fault == "dtype":
        place[name] = tensor.to(torch.int16 if not tensor.is_floating_point() else torch.float32)
    else:
        place[name] = tensor.repeat_interleave(2, -1)[..., ::2]
    # sizes and dtype are read from means and noise, so another tensor is reported where these are wrong
    with pytest.raises(RuntimeError, match=r"must"):
        _call(given)


@pytest.mark.parametrize("name", ["items", "means", "candidates", "statistics", "mu_hat", "width", "regret"])
def test_the_op_names_what_is_missing(name):
    given = _arguments()
    next(given[group] for group in ("world", "state", "outputs") if name in given[group])[name] = None
    with pytest.raises(RuntimeError, match=f"contextual_rounds: {name} must be given"):
        _call(given)


@pytest.mark.parametrize(
    ("group", "name", "value", "match"),
    [
        ("world", "rotated_means", None, "rotated_means and drift_rate must be given together"),
        ("state", "waiting", None, "waiting goes with delays"),
        ("world", "delays", None, "a fixed delay must be 2, got -1"),
        ("world", "candidates", torch.full((3, 5, 4), 7, dtype=torch.int32), "-1 or item numbers below 7, got 7 to 7"),
        ("world", "candidates", torch.full((3, 5, 4), -2, dtype=torch.int32), "-1 or item numbers below 7, got -2 to -2"),
        ("state", "waiting", torch.full((5, 3, 3), 7.0, dtype=D), "items that wait for a reward must be below 7"),
        ("shape", "memory", 3, "memory of type 3 cannot have 21 numbers"),
        ("shape", "memory", -1, "memory of type -1"),
        ("shape", "memory", 0, "memory of type 0 cannot have 21 numbers"),
        ("shape", "memory_size", 20, "statistics must"),
        ("shape", "slots", 4, "waiting must"),
        ("shape", "fixed_delay", 3, "sizes do not fit together"),
        ("shape", "refresh_every", 0, "sizes do not fit together"),
    ],
)
def test_the_op_refuses_numbers_that_do_not_fit(group, name, value, match):
    given = _arguments()
    given[group][name] = value
    with pytest.raises(RuntimeError, match=match):
        _call(given)


def test_the_op_refuses_other_mistakes():
    given = _arguments()
    with pytest.raises(RuntimeError, match=r"rule must be one of soft_current, .*, got softer"):
        _call(given, rule="softer")
    with pytest.raises(RuntimeError, match="draws must"):
        _call(given, rule="thompson")
    with pytest.raises(RuntimeError, match="start must be at least 0, got -1"):
        _call(given | {"start": -1})
    with pytest.raises(RuntimeError, match="expected 5 settings, 7 sizes and 3 outputs"):
        _call(given | {"settings": (1.0,)})
    del given["world"]["delays"]
    with pytest.raises(RuntimeError, match="world must have 7 tensors, got 6"):
        _call(given)


def _draw(**changes):
    given = {
        "seeds": torch.arange(5),
        "available": torch.full((5,), 4),
        "order": torch.arange(7).repeat(5, 1),
        "num_items": 7,
        "start": 0,
        "out": torch.empty(3, 5, 4, dtype=torch.int32),
    } | changes
    load_kernel().candidates(*given.values())


def test_the_draw_of_candidates_refuses_what_does_not_fit():
    _draw()
    for name, value, match in (
        ("seeds", torch.arange(4), "seeds must"),
        ("seeds", torch.arange(5).float(), "seeds must"),
        ("available", torch.full((5,), 8), "available must be at most the number of items 7"),
        ("available", torch.full((5,), -1), "available must"),
        ("order", torch.arange(6).repeat(5, 1), "order must"),
        ("order", torch.full((5, 7), 7), "order must be item numbers below 7"),
        ("start", -1, "start must be at least 0, got -1"),
        ("out", torch.empty(3, 5, 4), "out must"),
        ("out", torch.empty(3, 4, dtype=torch.int32), "out must"),
    ):
        with pytest.raises(RuntimeError, match=match):
            _draw(**{name: value})


def test_every_rule_plays(seeded):
    for name in POLICIES:
        regret, _ = play(policy_of(name), world_of("uniform"), compile="native", horizon=3)
        assert regret.isfinite().all()
