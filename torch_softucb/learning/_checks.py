"""Checks of learners."""

from torch import Tensor


def check_delta_fixed(where: str, raw: Tensor | None) -> None:
    if raw is not None:
        raise ValueError(
            f"{where}: delta must be fixed, as Eq. 13 holds gamma constant, got learn_delta=True; "
            "use estimator='trajectory' or 'common_random_numbers'"
        )


def check_handful(where: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(
            f"{where}: at most {most} numbers can be learned by two rollouts each, got {count}; use estimator='trajectory'"
        )
