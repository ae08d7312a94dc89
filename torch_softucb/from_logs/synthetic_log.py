"""Decision log of an epsilon-greedy policy on a known problem, for demonstrations and tests."""

import os

import torch
from torch import nn

from torch_softucb.checks import check_divides, check_integer
from torch_softucb.from_logs._checks import check_one_problem
from torch_softucb.policies import EpsilonGreedy
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import DecisionLog, SoftUCBHead


@torch.no_grad()
def epsilon_greedy_log(
    folder: str | os.PathLike[str],
    problem: BanditProblem,
    *,
    decisions: int = 20_000,
    batch: int = 100,
    epsilon: float = 0.1,
    features: bool = False,
    seed: int = 0,
) -> None:
    """Serve a problem with an epsilon-greedy policy, and log its decisions and rewards as sealed Parquet files.

    The policy learns from the rewards of each batch before it serves the next.

    Args:
        folder: folder of the log.
        problem: a single problem, not a batch.
        decisions: number of decisions, a multiple of ``batch``.
        batch: number of requests served at once.
        epsilon: share of uniform exploration.
        features: also log the features of all candidates with every decision. The candidate ids, which are always logged,
            suffice where arms do not change.
        seed: seed of the action draws and of the reward noise.

    Example:
        >>> import tempfile
        >>> from torch_softucb import synthetic_problem
        >>> from torch_softucb.recommend import read_decisions
        >>> folder, problem = tempfile.mkdtemp(), synthetic_problem(num_problems=1)[0]
        >>> epsilon_greedy_log(folder, problem, decisions=300)
        >>> read_decisions(f"{folder}/00000001.decisions.parquet").x.shape
        torch.Size([300, 10])
    """
    where = "epsilon_greedy_log"
    check_integer(where, "batch", batch, low=1)
    check_divides(where, "decisions", check_integer(where, "decisions", decisions, low=1), "requests in a batch", batch)
    check_one_problem(where, problem.batch_shape)
    policy = EpsilonGreedy(problem.dim, epsilon=epsilon, dtype=problem.arms.dtype, device=problem.arms.device)
    head = SoftUCBHead(nn.Identity(), policy, seed=seed, replica=0)
    generator = torch.Generator(problem.arms.device).manual_seed(seed)
    candidates = torch.arange(problem.num_arms)
    arms = problem.arms.expand(batch, -1, -1)
    with DecisionLog(folder, group=2 * decisions) as log:
        for _ in range(decisions // batch):
            served = head.serve(head(arms, mask=problem.mask))
            noise = torch.randn(batch, generator=generator, dtype=arms.dtype, device=arms.device)
            reward = problem.means[served.arm] + problem.noise_std * noise
            log.decisions(served, candidates=candidates, features=problem.arms if features else None)
            head.feedback(served.id, reward)
            log.rewards(served.id, reward)
        log.seal()
