"""Worlds with changing candidates, policies, and the plain loop that simulations of them are compared with."""

import copy
from dataclasses import replace

import torch

from torch_softucb import (
    EpsilonGreedy,
    GaussianPrior,
    LinTS,
    LinUCB,
    ScheduleBeta,
    SituationBeta,
    SoftUCBPolicy,
    contextual_problem,
)
from torch_softucb.problems.candidate_draws import draw_candidates, draw_delays
from torch_softucb.rng import derived_key, normals, stream_key, uniforms
from torch_softucb.simulation.engine import Simulation

D = torch.double
M, DIM, SLOTS, HORIZON = 20, 3, 5, 26


def _seeded(seed):
    return torch.Generator().manual_seed(seed)


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=_seeded(seed), dtype=D)


def _mask(*shape):
    mask = torch.rand(*shape, generator=_seeded(3)) > 0.6
    mask[..., 4] = True
    return mask


def _sets(rows=12):
    sets = torch.randint(-1, M, (rows, SLOTS), generator=_seeded(4))
    sets[:, 2] = 4  # no row is empty, nor is one that is masked by _mask
    return sets


WORLDS = {
    "uniform": {"candidates": SLOTS},
    "all items": {},
    "weights": {"candidates": SLOTS, "weights": torch.arange(M).double()},
    "sets": {"candidates": _sets()},
    "sets of masked items": {"candidates": _sets().clamp(min=0), "mask": _mask(M)},
    "a mask": {"candidates": SLOTS, "mask": _mask(M)},
    "masks": {"candidates": SLOTS, "mask": _mask(4, M)},
    "masked weights": {"candidates": SLOTS, "mask": _mask(4, M), "weights": torch.arange(M).double()},
    "bernoulli": {"candidates": SLOTS, "reward": "bernoulli"},
    "empirical": {"candidates": SLOTS, "reward": "empirical", "residuals": _random(7, seed=5)},
    "offset and misfit": {"candidates": SLOTS, "offset": 2.5, "misfit": 0.2 * _random(4, M, seed=6)},
    "own items": {"candidates": SLOTS, "items": _random(4, M, DIM, seed=7)},
    "own noise": {"candidates": SLOTS, "noise_std": torch.tensor([0.1, 0.5, 0.0, 1.0], dtype=D)},
    "drift": {"candidates": SLOTS},
    "late": {"candidates": SLOTS, "delay": 3},
    "random delays": {"candidates": SLOTS, "delay": torch.tensor([0.2, 0.3, 0.1, 0.4], dtype=D)},
    "lost rewards": {"candidates": SLOTS, "delay": torch.tensor([0.3, 0.0, 0.2], dtype=D)},
    "lost or at once": {"candidates": SLOTS, "delay": torch.tensor([0.5], dtype=D)},
}
DELAYED = ("late", "random delays", "lost rewards", "lost or at once")


def world_of(name, dtype=D, **settings):
    """Four bandits of the world with this name."""
    kwargs = WORLDS[name] | settings
    items, theta = kwargs.pop("items", _random(M, DIM)), _random(4, DIM, seed=1)
    if name == "bernoulli":
        world = contextual_problem(items, means=torch.sigmoid(theta @ items.mT), **kwargs)
    else:
        world = contextual_problem(items, theta=theta, **kwargs)
    if name == "drift":
        world = replace(world, rotated_means=_random(4, M, seed=8), drift_rate=0.07)
    return world.to(dtype)


def prior_of(dim=DIM):
    half = _random(dim, dim, seed=9)
    return GaussianPrior(
        0.3 * _random(dim, seed=10), half @ half.mT + 0.1 * torch.eye(dim, dtype=D), noise_std=0.4, offset=0.7
    )


POLICIES = {
    "current": lambda **settings: SoftUCBPolicy(DIM, beta_init=0.5, **settings),
    "lagged": lambda **settings: SoftUCBPolicy(DIM, beta_init=0.5, coldness="lagged", **settings),
    "smooth": lambda **settings: SoftUCBPolicy(DIM, beta_init=0.5, coldness="smooth", refresh_every=7, **settings),
    "auto": lambda **settings: SoftUCBPolicy.auto(DIM, **settings),
    "auto, a number": lambda **settings: SoftUCBPolicy.auto(DIM, beta_init=1.5, **settings),
    "auto, horizon": lambda **settings: SoftUCBPolicy.auto(DIM, horizon=HORIZON, **settings),
    "LinUCB": lambda **settings: LinUCB(DIM, beta=0.5, **settings),
    "LinUCB, running": lambda **settings: LinUCB.theoretical(DIM, subgaussian_r=0.5, fail_prob=0.01, **settings),
    "LinTS": lambda **settings: LinTS(DIM, scale=0.3, **settings),
    "EpsilonGreedy": lambda **settings: EpsilonGreedy(DIM, epsilon=0.1, **settings),
    "ScheduleBeta": lambda **settings: SoftUCBPolicy(DIM, beta_init=ScheduleBeta(HORIZON), coldness="smooth", **settings),
    "SituationBeta": lambda **settings: SoftUCBPolicy(
        DIM, beta_init=SituationBeta(horizon=HORIZON), coldness="smooth", **settings
    ),
}


def policy_of(name, **settings):
    return POLICIES[name](**({"dtype": D} | settings))


def play_by_hand(policy, world, *, seed=5, horizon=HORIZON, prior=None, discount=1.0):
    """Regret of every round and the statistics at the end: decide, pick, observe, update, one bandit at a time if late."""
    generator, device = _seeded(seed), torch.device("cpu")
    noise_key, action_key = (stream_key(generator, stream, device) for stream in ("noise", "action"))
    candidates = draw_candidates(world, derived_key(noise_key, "candidates"), start=0, count=horizon)
    width, batch = policy.normals_per_decision, tuple(world.batch_shape)
    if width:
        draws = normals(action_key, world.ids, start=0, count=horizon * width, dtype=D).view(horizon, width, *batch)
        draws = draws.movedim(1, -1)
    else:
        draws = uniforms(action_key, world.ids, start=0, count=horizon, dtype=D)
    u = uniforms(noise_key, world.ids, start=0, count=horizon, dtype=D)
    z = normals(noise_key, world.ids, start=0, count=horizon, dtype=D) * world.noise_std
    late = torch.zeros(horizon, *batch, dtype=torch.long)
    if world.delay is not None:
        late = draw_delays(world, derived_key(noise_key, "delay"), start=0, count=horizon)
    player = copy.deepcopy(policy)
    player.reset(batch_shape=batch, **({} if prior is None else {"prior": prior}))
    everywhere = world.arms.expand(*batch, *world.arms.shape[-2:])
    regrets, waiting = [], []
    for t in range(horizon):
        ids, means = candidates[t], world.means_at(t)
        shown, item = ids >= 0, ids.clamp(min=0)
        arms = everywhere.gather(-2, item.unsqueeze(-1).expand(*item.shape, world.dim))
        with torch.no_grad():
            decision = player(arms, mask=shown)
        arm = decision.pick(draws[t]).unsqueeze(-1)
        mean, x = means.gather(-1, item), arms.gather(-2, arm.unsqueeze(-1).expand(*arm.shape, world.dim)).squeeze(-2)
        best, got = mean.masked_fill(~shown, -torch.inf).amax(-1), mean.gather(-1, arm).squeeze(-1)
        regrets.append(best - (got if decision.probs is None else (decision.probs * mean).sum(-1)))
        if world.reward == "bernoulli":
            reward = (u[t] < got).to(D)
        elif world.reward == "empirical":
            reward = got + world.residuals[(u[t] * len(world.residuals)).long()]
        else:
            reward = got + z[t]
        if world.delay is None:
            player.update(x, reward, decision=decision, discount=discount)
            continue
        waiting.append((x, reward))
        for bandit in range(batch[0]):
            delays = late[: t + 1, bandit].tolist()
            arrived = [s for s, delay in enumerate(delays) if delay <= world.max_delay and s + delay == t]
            if arrived:
                rows = torch.tensor([bandit] * len(arrived))
                xs = torch.stack([waiting[s][0][bandit] for s in arrived])
                rewards = torch.stack([waiting[s][1][bandit] for s in arrived])
                player.update(xs, rewards, bandit=rows, discount=discount)
    return torch.stack(regrets), player.statistics


def play(policy, world, *, seed=5, horizon=HORIZON, compile=False, recorded=lambda t: t % 9 == 8, **settings):
    """The same by a simulation, some rounds of which are recorded."""
    simulation = Simulation(policy, world, generator=_seeded(seed), compile=compile, **settings)
    regret = torch.cat([played.regret.clone() for played in simulation.play(horizon, recorded=recorded)])
    return regret, simulation.state_dict()["statistics"]


def assert_plays_like_the_loop(policy, world, compile, *, discount=1.0, prior=None, **settings):
    """Equal regret in every round and equal statistics at the end."""
    want_regret, want = play_by_hand(policy, world, discount=discount, prior=prior, **settings)
    regret, statistics = play(policy, world, compile=compile, discount=discount, start=prior, **settings)
    torch.testing.assert_close(regret, want_regret, atol=1e-10, rtol=0)
    torch.testing.assert_close(statistics, want, atol=1e-9, rtol=1e-9)
