"""Checks of rollouts."""

from typing import Any

import torch

from torch_softucb.policies._checks import check_offered


def check_same_world(where: str, name: str, mine: object, other: str, theirs: object) -> None:
    """Two things that must agree in dim, dtype or device before they can meet."""
    if mine != theirs:
        error = TypeError if isinstance(mine, torch.dtype) else ValueError
        hint = "" if isinstance(mine, int) else f"; use policy.to({str(theirs)!r})"
        raise error(f"{where}: policy has {name} {mine}, {other} has {theirs}{hint.replace(chr(39), '')}")


def check_compile(where: str, compile: object) -> None:
    if compile is not True and compile is not False and compile != "native":
        raise ValueError(f"{where}: compile must be False, True (torch.compile) or 'native' (C++ kernel), got {compile!r}")


def check_native(where: str, policy: object, rule: object, gradient: bool, device: torch.device) -> None:
    kind = type(policy).__name__
    if rule is None:
        raise ValueError(f"{where}: {kind} has no native kernel; use compile=True or compile=False")
    if device.type != "cpu":
        raise ValueError(f"{where}: the native kernel runs on the CPU, got {device}; use compile=True or compile=False")
    if gradient and not rule.rule.startswith("soft"):  # type: ignore[attr-defined]
        check_offered(where, "gradient", None, kind)


def check_scored(where: str, policy: Any, scores: bool) -> None:
    if scores and getattr(policy, "coldness", "") not in ("current", "smooth"):
        raise ValueError(
            f"{where}: a trajectory's gradient needs SoftUCBPolicy with coldness 'smooth' (or 'current', biased), "
            f"got {type(policy).__name__} {getattr(policy, 'coldness', '')}".rstrip()
        )
