"""Problems, and who plays them."""

import math
from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks.numbers import NumericalError, check_number
from torch_softucb.checks.tensors import check_batch, check_finite, check_not_negative


def check_turn(where: str, turn: object, batch: torch.Size, *, drifts: bool) -> None:
    if isinstance(turn, Tensor):
        check_batch(where, "turn", turn, batch)
        check_finite(where, "turn", turn)
    else:
        check_number(where, "turn", turn, low=-math.inf, open_low=True)
    if not drifts and bool((torch.as_tensor(turn) != 0).any()):
        raise ValueError(f"{where}: turn must be 0 without turned, the means that they turn to, got {turn!r}; give both")


def check_plane(where: str, dim: int) -> None:
    if dim < 2:
        raise ValueError(f"{where}: dim must be at least 2 for theta to turn in a plane, got {dim}; use turn=0")


def check_same_world(where: str, name: str, mine: object, other: str, theirs: object) -> None:
    """Two things that must agree in dim, dtype or device before they can meet."""
    if mine != theirs:
        error = TypeError if isinstance(mine, torch.dtype) else ValueError
        hint = "" if isinstance(mine, int) else f"; use policy.to({str(theirs)!r})"
        raise error(f"{where}: policy has {name} {mine}, {other} has {theirs}{hint.replace(chr(39), '')}")


def check_offered(where: str, what: str, value: Tensor | None, policy: str) -> Tensor:
    """Something that only some policies have."""
    if value is None:
        raise TypeError(f"{where}: {what} is not there for {policy}: only SoftUCBPolicy has all of them")
    return value


def check_noise_std(where: str, noise_std: object, batch: torch.Size) -> None:
    if not isinstance(noise_std, Tensor):
        check_number(where, "noise_std", noise_std, low=0.0)
        return
    check_batch(where, "noise_std", noise_std, batch)
    check_not_negative(where, "noise_std", noise_std)


def check_compile(where: str, compile: object) -> None:
    if compile is not True and compile is not False and compile != "native":
        raise ValueError(f"{where}: compile must be False, True (torch.compile) or 'native' (C++ kernel), got {compile!r}")


def check_native(where: str, policy: object, rule: object, gradient: bool, device: torch.device) -> None:
    kind = type(policy).__name__
    if rule is None:
        raise ValueError(f"{where}: {kind} has no native kernel; use compile=True or compile=False")
    if device.type != "cpu":
        raise ValueError(f"{where}: the native kernel runs on the CPU, got {device}; use compile=True or compile=False")
    if gradient and not rule.kind.startswith("soft"):  # type: ignore[attr-defined]
        check_offered(where, "gradient", None, kind)


def check_scored(where: str, policy: Any, scores: bool) -> None:
    if scores and getattr(policy, "coldness", "") not in ("current", "smooth"):
        raise ValueError(
            f"{where}: a trajectory's gradient needs SoftUCBPolicy with coldness 'smooth' (or 'current', biased), "
            f"got {type(policy).__name__} {getattr(policy, 'coldness', '')}".rstrip()
        )


def check_evidence(where: str, *, share: float, no_effect: bool) -> None:
    """What the data say of the noise can be said with the digits that there are."""
    if no_effect:
        raise ValueError(
            f"{where}: the rewards show no dependence on x: the likeliest theta is 0, and there is nothing to explore; "
            "check that x and reward belong together, or bring more data"
        )
    if share < 1e-12:
        raise NumericalError(
            f"{where}: the rewards follow x without noise, to rounding ({share:.1g} of y^T y is left); a posterior needs "
            "noise: without it there is nothing to explore"
        )


def check_one_problem(where: str, batch: torch.Size) -> None:
    if batch:
        raise ValueError(
            f"{where}: problem must be a single one, got a batch {tuple(batch)}; choose one of it, as problem[0]"
        )
