"""A state that no sequence of updates leads to is refused, and a load that fails changes nothing."""

import copy

import pytest
import torch

from tests.policies.cases import ALL, build, play
from torch_softucb import EXP3, LinPHE, PhasedElimination, SegmentBeta, SituationBeta, SoftUCBHead, SoftUCBPolicy
from torch_softucb.policies.state_checks import check_statistics

K, DIM, BATCH = 4, 3, 5


def _played(name="soft_ucb"):
    policy = build(name, DIM, batch=(BATCH,))
    play(policy, torch.randn(6, DIM), rounds=4)
    return policy


def _bytes(module):
    return {name: value.numpy().tobytes() for name, value in module.state_dict().items()}


def _set(part, value, where=(2,)):
    def change(state, layout):
        getattr(layout.unpack(state["statistics"]), part)[where] = value

    return change


def _swap(value):
    def change(state, layout):
        state["statistics"] = value(state["statistics"])

    return change


NAN, INF = float("nan"), float("inf")
IMPOSSIBLE = {
    "NaN in V": (_set("V", NAN, (2, 0, 0)), "NaN or infinite"),
    "infinite b": (_set("b", INF, (4, 0)), r"NaN or infinite \(bandit 4 of 5\)"),
    "NaN in root": (_set("root", NAN, (0, 1, 2)), "NaN or infinite"),
    "V not symmetric": (_set("V", 9.0, (2, 0, 1)), "V is not symmetric"),
    "V negative": (_set("V", -torch.eye(DIM, dtype=torch.double)), "V is not positive definite"),
    "V zero": (_set("V", 0.0), "V is not positive definite"),
    "V indefinite": (_set("V", torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]).double()), "V is not positive definite"),
    "another root": (_set("root", torch.eye(DIM).double() * 0.3), "root does not belong to V"),
    "a root a little off": (lambda s, layout: layout.unpack(s["statistics"]).root[1].mul_(1.001), "root does not belong"),
    "count below 0": (_set("num_observations", -1.0), "number of observations is negative"),
    "gamma below 0": (_set("gamma", -0.5), "gamma is negative"),
    "gamma NaN": (_set("gamma", NAN), "NaN or infinite"),
    "float32": (_swap(lambda s: s.float()), "must be torch.float64 of shape"),
    "complex": (_swap(lambda s: s.to(torch.complex128)), "must be torch.float64"),
    "integers": (_swap(lambda s: s.long()), "must be torch.float64"),
    "sparse": (_swap(lambda s: s.to_sparse()), "must be a dense tensor"),
    "no tensor": (_swap(lambda s: s.tolist()), "must be a dense tensor, got list"),
    "shorter rows": (_swap(lambda s: s[..., :-1]), r"of shape \(\*B, "),
    "no rows": (_swap(lambda s: s[:0]), r"of shape \(\*B, "),
    "no dims": (_swap(lambda s: s.new_zeros(())), r"of shape \(\*B, "),
    "expanded": (_swap(lambda s: s[:1].expand(2**40, -1)), "must be stored in full"),
    "beta NaN": (lambda s, layout: s["raw_beta"].fill_(NAN), "raw_beta must be finite"),
    "beta too large for float32": (lambda s, layout: s.update(raw_beta=torch.tensor(1e300).double()), "raw_beta must be"),
    "complex beta": (lambda s, layout: s.update(raw_beta=torch.tensor(1j)), "raw_beta must be torch.float32"),
    "integer beta": (lambda s, layout: s.update(raw_beta=torch.tensor(1)), "raw_beta must be torch.float32"),
    "beta of another shape": (lambda s, layout: s.update(raw_beta=torch.ones(2)), "raw_beta must be .* of shape"),
    "no beta": (lambda s, layout: s.pop("raw_beta"), "without \\['raw_beta'\\]"),
    "an unknown entry": (lambda s, layout: s.update(hook=torch.ones(1)), "with \\['hook'\\]"),
}
NAMES = ("no beta", "an unknown entry")  # a module that contains the policy compares its own names


@pytest.mark.parametrize(
    ("case", "inside"),
    [(case, inside) for case in IMPOSSIBLE for inside in (False, True) if case not in NAMES or not inside],
)
def test_an_impossible_state_is_refused_and_changes_nothing(case, inside):
    change, match = IMPOSSIBLE[case]
    state = {name: value.clone() for name, value in _played().state_dict().items()}
    policy = _played()
    change(state, policy.layout)
    before = _bytes(policy)
    owner = SoftUCBHead(torch.nn.Identity(), policy) if inside else policy
    with pytest.raises(ValueError, match=rf"SoftUCBPolicy.load_state_dict: .*{match}"):
        owner.load_state_dict({f"policy.{name}" if inside else name: value for name, value in state.items()})
    assert _bytes(policy) == before


@pytest.mark.parametrize("name", ALL)
def test_the_states_of_all_policies_are_possible(name):
    policy = _played(name)
    policy.check_state(policy.state_dict())
    fresh = build(name, DIM, batch=(BATCH,))
    fresh.load_state_dict(copy.deepcopy(policy.state_dict()))
    assert _bytes(fresh) == _bytes(policy)


@pytest.mark.parametrize(
    ("make", "memory"),
    [
        (lambda: LinPHE(DIM, K), [-1.0] + [0.0] * 11),
        (lambda: LinPHE(DIM, K), [1.0] + [0.0] * 3 + [5.0] + [0.0] * 3 + [1.0] + [0.0] * 3),  # one reward 5, its square 1
        (lambda: LinPHE(DIM, K), [0.0] * 8 + [-1.0] + [0.0] * 3),
        (lambda: PhasedElimination(DIM, K), [0.0] * 17),  # no arm left
        (lambda: PhasedElimination(DIM, K), [0.5] * 4 + [0.0] * 13),
        (lambda: PhasedElimination(DIM, K), [1.0] * 4 + [-1.0] + [0.0] * 12),
        (lambda: PhasedElimination(DIM, K), [1.0] * 4 + [0.0] * 12 + [1.5]),
        (lambda: SoftUCBPolicy.pretrained(DIM), [-1.0, 0.0]),
        (lambda: SoftUCBPolicy.pretrained(DIM), [1.0, -1.0]),
    ],
)
def test_a_memory_that_the_policy_cannot_have_is_refused(make, memory):
    policy = make()
    state = {name: value.clone() for name, value in policy.state_dict().items()}
    policy.layout.unpack(state["statistics"]).memory.copy_(torch.tensor(memory))
    with pytest.raises(ValueError, match="the memory is not one that this policy can have"):
        policy.load_state_dict(state)


def test_log_weights_may_be_any_numbers():
    policy = EXP3(DIM, K)
    state = policy.state_dict()
    policy.layout.unpack(state["statistics"]).memory.copy_(torch.tensor([-3.0, 0.0, 1.0, 9.0]))
    policy.load_state_dict(state)


@pytest.mark.parametrize("value", [-1, 2, 10**12])
def test_segments_out_of_range_are_refused(value):
    policy = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1])))
    state = {name: entry.clone() for name, entry in policy.state_dict().items()}
    state["beta_module.segments"][0] = value
    with pytest.raises(ValueError, match="segments must be from 0 to 1"):
        policy.load_state_dict(state)
    assert policy.beta_module.segments.tolist() == [0, 1]


def test_a_part_of_a_network_that_does_not_fit_changes_nothing():
    policy = SoftUCBPolicy(2, beta_init=SituationBeta(horizon=9))
    before = _bytes(policy)
    other = SoftUCBPolicy(2, beta_init=SituationBeta(horizon=9))
    other.update(torch.ones(2), torch.tensor(1.0))
    for name, value in (("linear.weight", torch.ones(1, 3)), ("hidden.bias", torch.full((16,), NAN))):
        state = {**other.state_dict(), f"beta_module.{name}": value}
        with pytest.raises(ValueError, match=f"beta_module.{name} must be"):
            policy.load_state_dict(state)
        assert _bytes(policy) == before


def test_a_part_of_a_state_may_be_loaded_if_it_is_asked_for():
    policy = SoftUCBPolicy(2)
    policy.load_state_dict({"raw_beta": torch.tensor(0.25)}, strict=False)
    assert policy.beta == 0.25


def test_rows_in_all_blocks_are_checked():
    policy = SoftUCBPolicy(8)
    policy.reset(batch_shape=(4000,))  # three blocks
    check_statistics("here", policy, policy.statistics)
    policy.state.num_observations[3999] = -1
    with pytest.raises(ValueError, match=r"here: statistics are impossible: .*negative \(bandit 3999 of 4000\)"):
        check_statistics("here", policy, policy.statistics)
