"""Scales that are due after the kernel has added observations: the ones that the policy's own update finds."""

import pytest
import torch

from tests.simulation.contextual_cases import DIM, D, policy_of, prior_of, world_of
from torch_softucb.policies.scales import unpack_memory
from torch_softucb.simulation.contextual_arms import starting_player
from torch_softucb.simulation.contextual_state import ContextualState
from torch_softucb.simulation.settle import Settle, found_in, with_due_scales

KEY = torch.tensor(1)


def _observed(prior=None, count=4):
    """A policy of 4 bandits after ``count`` observations each, and the same with scales that are not up to date."""
    policy = policy_of("auto")
    policy.reset(batch_shape=(4,), **({} if prior is None else {"prior": prior}))
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        x = torch.randn(4, DIM, generator=generator, dtype=D)
        policy.update(x, x.sum(-1) + torch.randn(4, generator=generator, dtype=D))
    return policy


def _outdated(policy, rows):
    """Statistics whose summary is wrong and due in these rows."""
    statistics = policy.statistics.clone()
    memory = unpack_memory(statistics[:, policy.layout.memory])  # views
    memory.due[rows] = memory.total[rows]
    memory.summary[rows] = 0.5
    return statistics


@pytest.mark.parametrize("with_prior", [False, True])
def test_scales_that_are_due_are_found_and_others_kept(with_prior):
    policy = _observed(prior_of() if with_prior else None)
    outdated = _outdated(policy, torch.tensor([1, 3]))
    memory = unpack_memory(outdated[:, policy.layout.memory])
    memory.summary[0] = 0.5  # not due
    settled = with_due_scales(policy, outdated)
    torch.testing.assert_close(settled[1:], policy.statistics[1:], atol=1e-10, rtol=1e-10)
    assert settled[0].equal(outdated[0])
    assert with_due_scales(policy, settled) is settled  # nothing is due any more


def test_nothing_is_due_before_the_first_reward():
    policy = policy_of("auto")
    policy.reset(batch_shape=(4,))
    assert with_due_scales(policy, policy.statistics) is policy.statistics


def test_blocks_end_where_scales_are_due():
    def due(world, name="auto", native=True, start=None):
        player = starting_player(policy_of(name), world_of(world), start)
        settle = Settle(player, world_of(world), discount=1.0, native=native)
        return [t for t in range(12) if settle.due(t)]

    assert due("uniform") == [1, 2, 3, 4, 5, 6, 7, 9, 11]
    assert due("late") == [4, 5, 6, 7, 8, 9, 10]  # three rounds later
    assert due("random delays") == due("uniform", start=_observed()) == list(range(12))  # any round
    assert due("uniform", native=False) == due("uniform", name="smooth") == []


def test_apply_and_collect_settle_the_state_and_leave_other_policies_alone():
    world, policy = world_of("uniform"), _observed()
    for name, native, changes in (("auto", True, True), ("auto", False, False)):
        player = starting_player(policy_of(name), world, policy)
        state = ContextualState.fresh(player, world, noise_key=KEY, action_key=KEY)
        for method in ("apply", "collect"):
            state.statistics = outdated = _outdated(policy, torch.tensor([2]))
            getattr(Settle(player, world, discount=1.0, native=native), method)(state)
            assert (not state.statistics.equal(outdated)) == changes


def test_found_scales_are_those_of_the_policy():
    world, policy = world_of("uniform"), _observed(count=9)
    player = starting_player(policy_of("auto"), world, policy)
    state = ContextualState.fresh(player, world, noise_key=KEY, action_key=KEY)
    found = found_in(player, state)
    for name in ("offset", "noise_std", "prior_std"):
        assert getattr(found, name).equal(getattr(policy, name))
    fresh = found_in(
        player, ContextualState.fresh(starting_player(policy_of("auto"), world, None), world, noise_key=KEY, action_key=KEY)
    )
    assert all(value.isnan().all() and value.shape == (4,) for value in fresh)
