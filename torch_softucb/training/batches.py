"""Batches of a loader: episodes, or plain problems whose random numbers are derived from the number of the batch."""

from torch_softucb.learning.episode import Episode, stage_seed
from torch_softucb.problems.base import BanditProblem


def as_episode(where: str, batch: object, stage: str, *, number: int, rank: int = 0) -> Episode:
    """Return a batch as an episode; a plain problem gets seeds that depend on stage, number and rank alone.

    Args:
        where: name of the caller, for error messages.
        batch: what the loader returned.
        stage: ``train``, ``validate`` or ``test``.
        number: number of the batch in its stage.
        rank: rank of this process: processes that are given the same problem play it with different noise.

    Raises:
        TypeError: the batch is neither an episode nor a problem.
        ValueError: the batch is a single problem, which would be played once per step.

    Example:
        >>> from torch_softucb import synthetic_problem
        >>> problem = synthetic_problem(num_problems=4)
        >>> first, second = (as_episode("f", problem, "train", number=n) for n in range(2))
        >>> first.noise_seed != second.noise_seed, first.problem is problem
        (True, True)
    """
    if isinstance(batch, Episode):
        return batch
    if not isinstance(batch, BanditProblem):
        raise TypeError(
            f"{where}: a batch must be a BanditProblem or an Episode, got {type(batch).__name__}; "
            "use trainer.fit(module, DataLoader(problems, batch_size=None)) for a list of problems, or "
            "trainer.fit(module, ProblemDataModule(problem=problem))"
        )
    if len(batch.batch_shape) != 1:
        raise ValueError(
            f"{where}: the problems of a batch must have means of shape (B, K), one trajectory per row, got "
            f"{tuple(batch.means.shape)}; use trainer.fit(module, ProblemDataModule(problem=problem)), which plays a "
            "problem many times per step, or DataLoader([problem.repeat(256)], batch_size=None)"
        )
    noise, action = (stage_seed(rank, stage, stream, number) for stream in ("noise", "action"))
    return Episode(batch, noise, action)
