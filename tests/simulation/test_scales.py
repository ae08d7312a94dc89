"""When the scales of a simulation are estimated, and their rows."""

from dataclasses import replace

import torch

from torch_softucb import AutoSoftUCB, LinUCB, rollout, synthetic_problem
from torch_softucb.policies.scales import fresh_memory as fresh
from torch_softucb.policies.scales import next_due, unpack_memory
from torch_softucb.simulation.scales import NUM_SCALES, Schedule, fresh_scales, noise_unit


def test_the_schedule_is_the_one_of_the_policy():
    for discount in (1.0, 0.97):
        count, weight, due, times = 0, 0.0, 1.0, []
        while count < 3000:
            count, weight = count + 1, discount * weight + 1
            if count >= due:
                times.append(count)
                due = float(next_due(torch.tensor(float(count)), torch.tensor(weight, dtype=torch.double)))
        schedule = Schedule(discount)
        assert [t for t in range(3001) if schedule.due(t)] == times
        assert [t for t in reversed(range(3001)) if schedule.due(t)] == times[::-1]


def test_fresh_scales_are_those_of_a_fresh_policy():
    scales, memory = fresh_scales((3,), torch.device("cpu")), unpack_memory(fresh(4))
    assert scales.shape == (NUM_SCALES, 3)
    own = (memory.anchor, memory.offset, memory.noise_std, memory.rho, *memory.summary)
    assert scales[:, 0].tolist() == [float(value) for value in own]
    assert noise_unit(scales).tolist() == [1.0, 1.0, 1.0]


def test_a_rollout_returns_the_scales_that_were_found():
    problem = synthetic_problem(num_problems=8, num_arms=5, dim=2, noise_std=0.2, generator=torch.Generator().manual_seed(0))
    problem = replace(problem, means=10 * problem.means + 7, noise_std=2.0)
    scales = rollout(AutoSoftUCB(2), problem, horizon=300, generator=torch.Generator().manual_seed(1)).scales
    assert (scales.noise_std - 2).abs().max() < 0.5
    assert (scales.offset - 7).abs().median() < 3
    assert (scales.prior_std > 0).all()
    early = rollout(AutoSoftUCB(2), problem, horizon=1).scales
    assert early.noise_std.isnan().all()
    assert early.offset.isnan().all()
    assert rollout(LinUCB(2), problem, horizon=1).scales is None
