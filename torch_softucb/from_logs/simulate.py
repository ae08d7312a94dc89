"""Expected regret on problems drawn from the posterior of a log, and regret of what was logged."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.from_logs.candidates import row_blocks
from torch_softucb.from_logs.evaluate import start_of
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, LinUCB, SoftUCBPolicy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.rng import mixed_seed

Key = TypeVar("Key")

_STEP = 1 << 30  # takes the place of the optimiser step in the seeds; learning never reaches it


def simulated_regret(
    problems_of: Callable[[int, torch.Generator], BanditProblem],
    policies: Mapping[Key, BanditPolicy],
    *,
    horizon: int,
    problems: int = 1024,
    seed: int = 0,
    compile: bool | str = "native",
    progress: Callable[[], object] | None = None,
) -> dict[Key, Tensor]:  # (problems,) each
    """Play every policy on drawn problems, and return its cumulative regret on each of them.

    Every trajectory starts without observations. All policies get the same problems and noise, even across calls with the
    same seed. Learning beta with that seed uses other problems.

    Args:
        problems_of: function (count, generator) that draws problems, from the posterior of a log.
        policies: policies to play; the keys are returned with the results.
        horizon: number of rounds T.
        problems: number of problems to draw.
        seed: seed of problems, noise and action draws.
        compile: backend of the rollouts, as in :func:`~torch_softucb.rollout`.
        progress: called after every policy.
    """
    check_integer("simulated_regret", "problems", problems, low=2)
    problem_seed, noise_seed, action_seed = (mixed_seed(seed, stream, _STEP) for stream in range(3))
    drawn = problems_of(problems, torch.Generator().manual_seed(problem_seed))
    episode, regret = Episode(drawn, noise_seed, action_seed), {}
    for key, policy in policies.items():
        regret[key] = episode.play(policy, horizon=horizon, compile=compile).regret.sum(0).double()
        if progress is not None:
            progress()
    return regret


def baselines(policy: SoftUCBPolicy, *, radius: float) -> dict[str, BanditPolicy]:
    """Return LinUCB with the radius of Eq. 5 and LinUCB with the beta of the policy, by their names in the report."""
    start = start_of(policy)
    return {
        "LinUCB, Eq. 5": LinUCB(policy.dim, beta=radius, **start),
        "LinUCB, same beta": LinUCB(policy.dim, beta=float(policy.beta.detach()), **start),
    }


def logged_regret(
    posterior: ProblemPosterior,
    *,
    first: int | None = None,
    draws: int = 64,
    generator: torch.Generator | None = None,
) -> Tensor:  # (draws,)
    """Return the mean regret per logged decision, for thetas drawn from the posterior.

    Needs a log with known candidate sets. Only the first item of a slate counts, because the later ones could not repeat it.

    Args:
        posterior: fitted to the log.
        first: number of decisions to average over, from the beginning; None for all.
        draws: number of thetas.
        generator: source of random numbers; torch's default generator if None.
    """
    mean, root = posterior.theta.mean, posterior.theta.root
    z = torch.randn(draws, *mean.shape, generator=generator, dtype=mean.dtype).to(mean.device)
    theta = mean + (root @ z.unsqueeze(-1)).squeeze(-1)  # (draws, U, d)
    counted = (posterior.position == 0).nonzero().squeeze(-1)[:first]
    total = mean.new_zeros(draws)
    for block in row_blocks(len(counted), draws * posterior.offered.rows.shape[1]):
        rows = counted[block]
        arms, mask = posterior.offered.sets(rows)
        values = torch.einsum("smd,mkd->smk", theta[:, posterior.owner[rows]], arms)
        shown = values.gather(-1, posterior.offered.arm[rows].expand(draws, -1).unsqueeze(-1)).squeeze(-1)
        total += (values.masked_fill(~mask, -torch.inf).amax(-1) - shown).sum(-1)
    return total / len(counted)
