"""The log that a policy is learned from: decisions in memory, or Parquet files that are streamed."""

from typing import Protocol

from torch_softucb.checks import check_choice, check_number
from torch_softucb.from_logs.candidates import sets_from_items
from torch_softucb.from_logs.evaluate import LogValue, evaluate_on_log, split_log
from torch_softucb.from_logs.posterior import ProblemPosterior
from torch_softucb.from_logs.stream import ENGINES, Source
from torch_softucb.from_logs.stream_evaluation import evaluate_stream
from torch_softucb.from_logs.summary import LogSummary, summarise_log, summarise_shares, summary_in_memory
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.recommend import LoggedDecisions


class LogData(Protocol):
    """What learning needs from a log."""

    def summary(self) -> LogSummary:
        """Return the summary of all decisions."""
        ...

    def summaries(self, share: float) -> tuple[LogSummary, LogSummary]:
        """Return the summaries of the earlier and of all decisions; from then on, :meth:`value` uses the later ones."""
        ...

    def can_evaluate(self, summary: LogSummary) -> bool:
        """Return whether :meth:`value` is possible: propensities can only be estimated in memory."""
        ...

    def value(self, policy: SoftUCBPolicy, posterior: ProblemPosterior, summary: LogSummary) -> LogValue:
        """Evaluate a policy on the later decisions.

        Args:
            policy: policy that has learned from the earlier decisions.
            posterior: posterior of the earlier decisions.
            summary: summary of all decisions, which has the items.
        """
        ...


def log_data(log: LoggedDecisions | Source, *, per_user: bool, engine: str, seed: int) -> LogData:
    """Return the log of decisions in memory, or of Parquet files.

    Args:
        log: decisions, or a folder of Parquet files, or several files.
        per_user: keep the bandit ids; otherwise all decisions are those of one bandit.
        engine: how files are streamed, ``local`` or ``ray``.
        seed: seed of the sample of candidate sets that is kept of files.
    """
    check_choice("learn_from_log", "engine", engine, ENGINES)
    if not isinstance(log, LoggedDecisions):
        if hasattr(log, "columns") or hasattr(log, "__arrow_c_stream__"):
            raise TypeError(
                f"learn_from_log: log must be decisions or files, got {type(log).__name__}; use read_decisions(frame)"
            )
        return _Files(log, per_user=per_user, engine=engine, seed=seed)
    return _InMemory(log if per_user else log._replace(bandit=log.bandit.new_full(log.bandit.shape, -1)))


class _InMemory:
    def __init__(self, log: LoggedDecisions) -> None:
        self.log, self.share = log, 0.5

    def summary(self) -> LogSummary:
        return summary_in_memory(self.log)

    def summaries(self, share: float) -> tuple[LogSummary, LogSummary]:
        self.share = share
        return summary_in_memory(split_log(self.log, share=share)[0]), self.summary()

    def can_evaluate(self, summary: LogSummary) -> bool:
        return True

    def value(self, policy: SoftUCBPolicy, posterior: ProblemPosterior, summary: LogSummary) -> LogValue:
        earlier, later = split_log(self.log, share=self.share)
        offered = sets_from_items(summary.sample, summary.items).select(slice(len(earlier.arm), None))
        return evaluate_on_log(policy, later, candidates=offered, posterior=posterior)


class _Files:
    def __init__(self, source: Source, *, per_user: bool, engine: str, seed: int) -> None:
        self.source, self.per_user, self.engine, self.seed, self.share = source, per_user, engine, seed, 0.5

    def summary(self) -> LogSummary:
        return summarise_log(self.source, per_bandit=self.per_user, seed=self.seed, engine=self.engine)

    def summaries(self, share: float) -> tuple[LogSummary, LogSummary]:
        self.share = check_number("learn_from_log", "share", share, low=0.0, high=1.0, open_low=True)
        return summarise_shares(self.source, share, per_bandit=self.per_user, seed=self.seed, engine=self.engine)

    def can_evaluate(self, summary: LogSummary) -> bool:
        return summary.sample.has_propensities

    def value(self, policy: SoftUCBPolicy, posterior: ProblemPosterior, summary: LogSummary) -> LogValue:
        return evaluate_stream(
            policy,
            self.source,
            posterior=posterior,
            items=summary.items,
            share=(self.share, 1.0),
            per_bandit=self.per_user,
            engine=self.engine,
        )
