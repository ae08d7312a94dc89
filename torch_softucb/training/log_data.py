"""Data module of a decision log: problems drawn from its posterior."""

from dataclasses import replace
from typing import Any, Literal

import torch

from torch_softucb.checks import check_choice, check_integer
from torch_softucb.from_logs._checks import check_delay
from torch_softucb.from_logs.delays import logged_delays
from torch_softucb.from_logs.posterior import fit_posterior
from torch_softucb.from_logs.prior import fit_prior
from torch_softucb.from_logs.source import log_data
from torch_softucb.from_logs.worlds import NOISES
from torch_softucb.learning.episode import Episode, stage_seed
from torch_softucb.problems.base import BanditProblem
from torch_softucb.recommend import read_decisions
from torch_softucb.training.data import EpisodeDataModule


class LogDataModule(EpisodeDataModule):
    """Data module of a decision log. Every step plays new problems that are drawn from the posterior of the log.

    Candidates change from round to round as in the log (:meth:`~torch_softucb.from_logs.ProblemPosterior.draw`). Training,
    validation and test draw different problems from the same posterior. :func:`~torch_softucb.from_logs.learn_from_log`
    learns the same beta without Lightning, and estimates its gain.

    Args:
        path: folder of a :class:`~torch_softucb.recommend.DecisionLog`, or a Parquet table of decisions.
        stream: read Parquet files in batches, for a folder of files that is larger than memory.
        per_user: one theta per bandit id of the log; False takes all decisions as those of one bandit.
        noise: noise of the rewards, ``gaussian`` or ``empirical``, drawn from the residuals of the log.
        delay: number of rounds by which rewards are late, or the probabilities of 0, 1, ... rounds; or ``logged``, which
            estimates them from the records of a DecisionLog (:func:`~torch_softucb.from_logs.logged_delays`).
        prior: ``fit`` fits a prior to the users of the log (:func:`~torch_softucb.fit_prior`), from which all trajectories
            start. Give :attr:`prior` to the policy that you deploy, too. By default theta starts at 0.
        num_arms: candidates per round if the log does not contain any.
        **sizes: ``trajectories``, ``num_steps``, ``eval_trajectories``, ``one_episode`` and ``seed`` of
            :class:`EpisodeDataModule`.

    Attributes:
        posterior: posterior of the log.
        prior: prior that trajectories start from; None if there is none.
    """

    def __init__(
        self,
        *,
        path: str,
        stream: bool = False,
        per_user: bool = True,
        noise: str = "gaussian",
        delay: int | list[float] | Literal["logged"] = 0,
        prior: Literal["fit"] | None = None,
        num_arms: int = 50,
        **sizes: Any,
    ) -> None:
        super().__init__(**sizes)
        where = "LogDataModule"
        check_choice(where, "noise", noise, NOISES)
        if isinstance(delay, str):
            check_choice(where, "delay", delay, ("logged",))
        self.noise = noise
        self.delay = logged_delays(path, per_user=per_user) if isinstance(delay, str) else check_delay(where, delay)
        if prior is not None:
            check_choice(where, "prior", prior, ("fit",))
        data = log_data(path if stream else read_decisions(path), per_user=per_user, engine="local", seed=self.seed)
        num_arms, summary = check_integer(where, "num_arms", num_arms, low=1), data.summary()
        self.prior = None if prior is None else fit_prior(summary.sums)
        self.posterior = fit_posterior(summary, num_arms=num_arms, prior=self.prior)
        self.dim = self.posterior.dim
        self.save_hyperparameters()

    def problems(self, stage: str, number: int, count: int, *, first: int = 0) -> BanditProblem:
        """Draw problems ``first`` to ``first + count - 1`` of a batch."""
        generator = torch.Generator().manual_seed(stage_seed(self.seed, stage, "problem", number))
        drawn = self.posterior.draw(first + count, generator=generator, noise=self.noise, delay=self.delay)
        return drawn[first:]

    def episode(self, stage: str, number: int, count: int) -> Episode:
        """Return this process's share of a batch, which starts from the prior if there is one."""
        return replace(super().episode(stage, number, count), start=self.prior)
