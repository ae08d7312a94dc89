"""What a learned beta is expected to bring, by simulation of the problems that a log leaves possible."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_integer
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, LinUCB, SoftUCBPolicy
from torch_softucb.rng import mixed_seed

_BLOCK = 1 << 22  # means of arms at once


def mean_interval(values: Tensor, *, confidence: float = 0.95) -> F.Evaluation:  # (n,)
    """Mean of independent numbers with its interval.

    Example:
        >>> mean_interval(torch.tensor([1.0, 2.0, 3.0])).value
        tensor(2.)
    """
    return F.direct_method(torch.ones_like(values).unsqueeze(-1), values.unsqueeze(-1), confidence=confidence)


def simulated_regret(
    posterior: ProblemPosterior,
    policies: Mapping[str, BanditPolicy],
    *,
    horizon: int,
    problems: int = 1024,
    seed: int = 0,
    compile: bool | str = "native",
    progress: Callable[[], object] | None = None,
) -> dict[str, Tensor]:  # name -> (problems,)
    """Regret of a whole trajectory from the first round on: every policy meets the same problems and the same noise."""
    check_integer("simulated_regret", "problems", problems, low=2)
    generator, noise, action = (mixed_seed(seed, stream, 1 << 30) for stream in range(3))  # no step of learning has these
    drawn = posterior.draw(problems, generator=torch.Generator().manual_seed(generator))
    episode, found = Episode(drawn, noise, action), {}
    for name, policy in policies.items():
        found[name] = episode.play(policy, horizon=horizon, compile=compile).regret.sum(0).double()
        if progress is not None:
            progress()
    return found


def baselines(policy: SoftUCBPolicy, *, radius: float) -> dict[str, BanditPolicy]:
    """LinUCB at Eq. 5's radius and at the policy's own beta."""
    beta, alpha = float(policy.beta.detach()), policy.ridge_alpha
    return {
        "LinUCB, Eq. 5": LinUCB(policy.dim, beta=radius, ridge_alpha=alpha),
        "LinUCB, same beta": LinUCB(policy.dim, beta=beta, ridge_alpha=alpha),
    }


def at_betas(policy: SoftUCBPolicy, betas: Sequence[float]) -> dict[str, BanditPolicy]:
    """The policy with other betas, from nothing, and LinUCB with the same; names are ``SoftUCB 0.5`` and ``LinUCB 0.5``."""
    kind = {"delta": float(policy.delta), "smoothing": policy.smoothing, "ridge_alpha": policy.ridge_alpha}
    found: dict[str, BanditPolicy] = {}
    for beta in betas:
        soft = SoftUCBPolicy(policy.dim, beta_init=beta, coldness=policy.coldness, **kind)  # type: ignore[arg-type]
        found[f"SoftUCB {beta}"] = soft
        found[f"LinUCB {beta}"] = LinUCB(policy.dim, beta=beta, ridge_alpha=policy.ridge_alpha)
    return found


def logged_regret(
    posterior: ProblemPosterior,
    *,
    first: int | None = None,
    draws: int = 64,
    generator: torch.Generator | None = None,
) -> Tensor:  # (draws,)
    """Expected regret of what was logged, mean over decisions (all, or the first ones), for thetas drawn from the posterior.

    Only for logs that say what was on offer. Of a slate its first item counts: the others had to be other items.
    """
    mean, root = posterior.theta.mean, posterior.theta.root
    z = torch.randn(draws, *mean.shape, generator=generator, dtype=mean.dtype).to(mean.device)
    theta = mean + (root @ z.unsqueeze(-1)).squeeze(-1)  # (draws, U, d)
    counted = (posterior.position == 0).nonzero().squeeze(-1)[:first]
    n = len(counted)
    size = max(1, _BLOCK // (draws * posterior.offered.rows.shape[1]))
    total = mean.new_zeros(draws)
    for start in range(0, n, size):
        rows = counted[start : start + size]
        arms, mask = posterior.offered.sets(rows)
        values = torch.einsum("smd,mkd->smk", theta[:, posterior.owner[rows]], arms)
        shown = values.gather(-1, posterior.offered.arm[rows].expand(draws, -1).unsqueeze(-1)).squeeze(-1)
        total += (values.masked_fill(~mask, -torch.inf).amax(-1) - shown).sum(-1)
    return total / n
