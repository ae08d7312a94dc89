"""The only place that words an input error: what was expected, what came, how to mend it.

Every function takes ``where`` (the caller's public name) first. Checks that must read a tensor's *values* are
passed over while torch traces the code (``torch.compile``) or maps it (``torch.func``), where values are not there yet.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor


class NumericalError(ArithmeticError):
    """Numbers that cannot be right (a cache off the truth, NaN in an estimate): never repaired in silence."""


def values_readable(tensor: Tensor) -> bool:
    """Not while torch traces the code, or maps it over a tensor."""
    if torch.compiler.is_compiling():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def check_number(
    where: str,
    name: str,
    value: object,
    *,
    low: float,
    high: float = math.inf,
    open_low: bool = False,
    closed_high: bool = False,
) -> float:
    """A finite number in ``[low, high)``; ``open_low`` leaves low out, ``closed_high`` takes high in."""
    span = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if closed_high else ')'}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{where}: {name} must be a number in {span}, got {type(value).__name__}")
    inside = math.isfinite(value) and low <= value <= high
    if not inside or (open_low and value == low) or (not closed_high and value == high):
        raise ValueError(f"{where}: {name} must be in {span}, got {value}")
    return float(value)


def check_integer(where: str, name: str, value: object, *, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where}: {name} must be a whole number, at least {low}, got {value!r}")
    if value < low:
        raise ValueError(f"{where}: {name} must be at least {low}, got {value}")
    return value


def check_choice(where: str, name: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        raise ValueError(f"{where}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_delta(where: str, delta: float) -> float:
    """Departure D2: below 0.5 the coldness can be negative and Lemma 2's proof fails."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float)):
        raise TypeError(f"{where}: delta must be a number in [0.5, 1), got {type(delta).__name__}")
    if not 0.5 <= delta < 1.0:
        raise ValueError(f"{where}: delta must be in [0.5, 1), got {delta}; below 0.5 gamma can be negative (D2)")
    return float(delta)


def check_float_tensor(
    where: str, name: str, tensor: object, *, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{where}: {name} must be a floating point tensor, got {type(tensor).__name__}")
    if not tensor.is_floating_point():
        raise TypeError(f"{where}: {name} must be a floating point tensor, got dtype {tensor.dtype}")
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(
            f"{where}: {name} must have the policy's dtype {dtype}, got {tensor.dtype}; "
            f"use {name}.to({dtype}) or policy.to({tensor.dtype})"
        )
    if device is not None and tensor.device != device:
        raise ValueError(f"{where}: {name} must be on {device}, got {tensor.device}; use {name}.to({str(device)!r})")


def check_shape(where: str, name: str, shape: Sequence[int], ok: bool, expected: str) -> None:
    if not ok:
        raise ValueError(f"{where}: {name} must have shape {expected}, got {tuple(shape)}")


def check_arm_axis(where: str, name: str, tensor: Tensor) -> None:
    check_shape(where, name, tensor.shape, tensor.dim() >= 1 and tensor.shape[-1] >= 1, "(*B, K) with K >= 1")


def check_batch(where: str, name: str, tensor: Tensor, batch: torch.Size) -> None:
    """``()`` or the batch shape itself: one number for all, or one a bandit."""
    check_shape(where, name, tensor.shape, tensor.shape in ((), batch), f"() or {tuple(batch)}")


def check_finite(where: str, name: str, tensor: Tensor) -> None:
    if not values_readable(tensor) or math.isfinite(tensor.detach().sum().item()):  # NaN and inf reach the sum
        return
    bad = ~tensor.isfinite()
    if bool(bad.any()):  # else it was only the sum that overflowed
        first = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"{where}: {name} must be finite, got {int(bad.sum())} NaN or infinite of {tensor.numel()} values, "
            f"the first at {first}; nothing was changed"
        )


def check_mask(where: str, mask: object, shape: Sequence[int], *, device: torch.device | None = None) -> None:
    """A bool tensor of the arms' shape ``(*B, K)``, or ``(K,)`` for all, with an allowed arm in every row."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{where}: mask must be a bool tensor, True = allowed, got {got}")
    expected = f"{tuple(shape)} or {tuple(shape[-1:])}"
    check_shape(where, "mask", mask.shape, tuple(mask.shape) in (tuple(shape), tuple(shape[-1:])), expected)
    if device is not None and mask.device != device:
        raise ValueError(f"{where}: mask must be on {device}, got {mask.device}; use mask.to({str(device)!r})")
    if values_readable(mask) and not bool(mask.any(-1).all()):
        rows = (~mask.any(-1)).nonzero()
        raise ValueError(
            f"{where}: mask must allow at least one arm in every row, got {len(rows)} rows with none, "
            f"the first at {tuple(rows[0].tolist())}; leave such rows out"
        )


def check_bandit(where: str, bandit: object, batch_shape: Sequence[int], *, device: torch.device) -> None:
    """Ids of rows of a flat batch of bandits: int64 ``(N,)``, each in ``[0, num_bandits)``."""
    if len(batch_shape) != 1:
        raise ValueError(
            f"{where}: bandit needs a policy with one batch dimension, got batch_shape {tuple(batch_shape)}; "
            "call policy.reset(batch_shape=(num_bandits,)) first"
        )
    if not isinstance(bandit, Tensor) or bandit.dtype != torch.int64:
        got = f"dtype {bandit.dtype}" if isinstance(bandit, Tensor) else type(bandit).__name__
        raise TypeError(f"{where}: bandit must be an int64 tensor of bandit ids, got {got}")
    check_shape(where, "bandit", bandit.shape, bandit.dim() == 1, "(N,)")
    if bandit.device != device:
        raise ValueError(f"{where}: bandit must be on {device}, got {bandit.device}; use bandit.to({str(device)!r})")
    if values_readable(bandit) and bandit.numel():
        low, high = (int(v) for v in bandit.aminmax())
        if low < 0 or high >= batch_shape[0]:
            row = int(((bandit < 0) | (bandit >= batch_shape[0])).nonzero()[0])
            raise ValueError(
                f"{where}: bandit ids must be in [0, {batch_shape[0]}), got {int(bandit[row])} in row {row}; "
                "nothing was changed"
            )


def check_arm_ids(where: str, arm: object, batch: torch.Size, num_arms: int) -> None:
    """Chosen arms: int64 of the decision's batch shape, each in ``[0, K)``."""
    if not isinstance(arm, Tensor) or arm.dtype != torch.int64:
        got = f"dtype {arm.dtype}" if isinstance(arm, Tensor) else type(arm).__name__
        raise TypeError(f"{where}: arm must be an int64 tensor of arm numbers, got {got}")
    check_shape(where, "arm", arm.shape, arm.shape == batch, str(tuple(batch)))
    if values_readable(arm) and arm.numel():
        low, high = (int(v) for v in arm.aminmax())
        if low < 0 or high >= num_arms:
            raise ValueError(f"{where}: arm must be in [0, {num_arms}), got {low if low < 0 else high}")


def check_not_negative(where: str, name: str, tensor: Tensor) -> None:
    check_finite(where, name, tensor)
    if tensor.numel() and bool((tensor < 0).any()):
        raise ValueError(f"{where}: {name} must be at least 0, got {float(tensor.min())}")


def check_positive(where: str, name: str, tensor: Tensor) -> None:
    check_finite(where, name, tensor)
    if tensor.numel() and bool((tensor <= 0).any()):
        raise ValueError(f"{where}: {name} must be above 0, got {float(tensor.min())}")


def check_same_dtype(where: str, name: str, tensor: Tensor, other: str, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype:
        raise TypeError(f"{where}: {name} must have {other} dtype {dtype}, got {tensor.dtype}; use {name}.to({dtype})")


def check_beta_fits(where: str, shape: torch.Size, batch: torch.Size) -> None:
    if torch.compiler.is_compiling():  # a symbol for the batch equals no number; torch checks when it broadcasts
        return
    if shape not in ((), batch):
        raise ValueError(
            f"{where}: beta has shape {tuple(shape)}, which does not fit batch_shape {tuple(batch)}; "
            "reset the policy to beta's shape, or use one beta for all"
        )


def check_beta_is_number(where: str, raw: Tensor | None, module: object) -> Tensor:
    if raw is None:
        raise ValueError(
            f"{where}: beta must be a number, or one a bandit, got {type(module).__name__}, which says it decision by "
            "decision: look at decision.beta"
        )
    return raw


def check_beta_module(where: str, beta: object, kind: type) -> None:
    if isinstance(beta, type | torch.nn.Module) and not isinstance(beta, kind):
        name = f"the class {beta.__name__}" if isinstance(beta, type) else type(beta).__name__
        raise TypeError(f"{where}: beta_init must be a number, a tensor or a {kind.__name__} that was made, got {name}")


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


def check_range(where: str, name: str, value: Any, *, low: float) -> None:
    fine = isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)
    if not fine or not low <= value[0] <= value[1] or not value[0] > 0 or not math.isfinite(value[1]):
        least = f">= {low:g}" if low else "> 0"
        raise ValueError(f"{where}: {name} must be (low, high), low {least} and high not below it, got {value!r}")


def check_segments(where: str, segments: Any) -> None:
    integer = isinstance(segments, Tensor) and not segments.is_floating_point() and segments.dtype != torch.bool
    if not integer or not segments.numel() or bool((segments < 0).any()):
        shown = f"{segments.dtype} {tuple(segments.shape)}" if isinstance(segments, Tensor) else type(segments).__name__
        raise ValueError(f"{where}: segments must be integers >= 0, one for every bandit, got {shown}; number them from 0")


def check_looks_at(where: str, names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{where}: looks_at must be at least one name, each of them once, got {tuple(names)!r}")


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


def check_carried_gamma(where: str, gamma: Tensor | None, bandits: torch.Size) -> Tensor:
    """What coldness="lagged" needs to go on: one gamma for every bandit that is updated."""
    if gamma is None:
        raise ValueError(
            f"{where}: coldness='lagged' carries gamma_t to the next round; pass decision=, the one that chose x"
        )
    if gamma.shape != bandits:
        raise ValueError(
            f"{where}: coldness='lagged' carries one gamma a bandit, got a decision for {tuple(gamma.shape)} where "
            f"{tuple(bandits)} bandits are updated; use 'current' or 'smooth' for several requests or repeated ids"
        )
    return gamma


def check_round(where: str, t: int, horizon: int) -> None:
    check_integer(where, "horizon", horizon, low=1)
    check_integer(where, "t", t, low=1)
    if t > horizon:
        raise ValueError(f"{where}: t must be in [1, horizon], got t {t} and horizon {horizon}")


def check_has_rows(where: str, batch: torch.Size) -> None:
    if not batch:
        raise IndexError(f"{where}: a single problem has no rows to choose from; use it as it is, or .repeat(count)")


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


def check_divides(where: str, name: str, value: int, by: str, parts: int) -> None:
    if value % parts:
        raise ValueError(f"{where}: {name} must be a multiple of the number of {by}, {parts}, got {value}")


def check_seed_kept(where: str, mine: int, saved: int) -> None:
    if mine != saved:
        raise ValueError(
            f"{where}: seed must be the checkpoint's, {saved}, to go on with its run, got {mine}; "
            "use that seed, or start without the checkpoint"
        )


def check_one_episode(where: str, batch: torch.Size, betas: torch.Size) -> None:
    if batch != betas:
        raise ValueError(
            f"{where}: num_trajectories must be the number of trajectories of the data, {tuple(batch)}, got {tuple(betas)}"
        )


def unreadable_checkpoint(path: object, error: Exception) -> ValueError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"checkpoint {path}: cannot be read, cut short or not a checkpoint ({first}); use another one")


def check_checkpoint_dim(where: str, mine: int, saved: int) -> None:
    if mine != saved:
        raise ValueError(f"{where}: dim must be the checkpoint's, {saved}, got {mine}; use that dim, or another checkpoint")


def check_features(where: str, arms: Tensor, mu_hat: Tensor) -> None:
    """NaN or inf in a feature always reaches mu_hat (0 * inf is NaN), which is smaller: look there first."""
    if values_readable(mu_hat) and not math.isfinite(mu_hat.detach().sum().item()):
        check_finite(where, "arms", arms)


def check_arms(where: str, shape: torch.Size, rows: torch.Size, dim: int) -> None:
    """``(K, d)`` for all, or one set for every bandit or request."""
    fits = len(shape) >= 2 and shape[-1] == dim and shape[-2] >= 1 and (len(rows) == 0 or shape[:-2] in ((), rows))
    if not fits:
        expected = f"(K, {dim}) or ({', '.join(map(str, rows)) or '*requests'}, K, {dim})"
        check_shape(where, "arms", shape, False, expected)


def check_overflow(where: str, rows: Tensor) -> None:
    """Statistics that are about to be written: finite numbers may overflow when they are multiplied."""
    if values_readable(rows) and not math.isfinite(rows.sum().item()) and not bool(rows.isfinite().all()):
        raise NumericalError(f"{where}: x and reward are finite, but their products overflow float64; nothing was changed")


def check_observed(where: str, x: torch.Size, reward: torch.Size, rows: torch.Size, dim: int) -> None:
    """``x`` one or n observations for every bandit, ``reward`` the same without its last dim."""
    lead = x[:-1]
    if not (len(x) >= 1 and x[-1] == dim and (len(rows) == 0 or lead in (rows, (*rows, *lead[-1:])))):
        expected = f"({', '.join(map(str, rows)) or '*n'}, {dim}) or (*B, n, {dim})"
        check_shape(where, "x", x, False, expected)
    if reward != lead:
        check_shape(where, "reward", reward, False, f"{tuple(lead)}, that of x without its last dim")


def check_batch_shape(where: str, batch_shape: object) -> None:
    if not isinstance(batch_shape, (tuple, list)):
        raise TypeError(f"{where}: batch_shape must be a tuple of sizes, as (1024,) or (), got {batch_shape!r}")
    for size in batch_shape:
        check_integer(where, "batch_shape", size, low=1)


def check_ids(where: str, ids: object, batch: torch.Size) -> None:
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
        got = f"dtype {ids.dtype}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{where}: ids must be an int64 tensor, got {got}")
    check_shape(where, "ids", ids.shape, ids.shape == batch, str(tuple(batch)))


def check_noise_std(where: str, noise_std: object, batch: torch.Size) -> None:
    if not isinstance(noise_std, Tensor):
        check_number(where, "noise_std", noise_std, low=0.0)
        return
    check_batch(where, "noise_std", noise_std, batch)
    check_not_negative(where, "noise_std", noise_std)


def check_training_checkpoint(path: object, state: object) -> None:
    if not isinstance(state, dict) or "state_dict" not in state or "pytorch-lightning_version" not in state:
        raise ValueError(f"checkpoint {path}: is not one of a training run; a policy's own state loads by load_state_dict")


def check_checkpoint_kind(where: str, mine: Collection[str], saved: Collection[str]) -> None:
    if set(mine) != set(saved):
        other = sorted(set(mine) ^ set(saved))[0]
        advice = "; give the module that it was trained with as beta_init" if "beta_module" in other else ""
        raise ValueError(
            f"{where}: the checkpoint is of another kind of training ({other!r} is in one of them only){advice}"
        )


def check_episodes(where: str, one_episode: bool, wanted: bool) -> None:
    if one_episode != wanted:
        raise ValueError(f"{where}: the data must have one_episode={wanted}, got {one_episode}")


def check_whole_horizon(where: str, rounds: int, steps: int, horizon: int) -> None:
    if not (steps - 1) * rounds < horizon <= steps * rounds:
        fit = -(-horizon // rounds)
        raise ValueError(
            f"{where}: num_steps must be horizon / rounds_per_step, {fit}, to play all {horizon} rounds, got {steps}"
        )


def check_one_process(where: str, processes: int) -> None:
    if processes > 1:
        raise ValueError(
            f"{where}: every trajectory learns by itself, in one process, got {processes}; "
            "use devices=1, or SoftUCBOffline to learn one beta in several"
        )


def check_not_played(where: str, t: int, horizon: int) -> None:
    if t >= horizon:
        raise ValueError(f"{where}: has played its {horizon} rounds; make a new module for another run")


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


def check_remembered(
    where: str, decision: object, arm: object, rows: torch.Size, *, lead: torch.Size, bandit: Tensor | None
) -> tuple[Any, Tensor]:
    """A policy that remembers arms learns from one decision a bandit, and must be told which arm was played."""
    if decision is None or arm is None:
        raise ValueError(f"{where}: decision and arm must be given: this policy remembers which arm it played")
    batch = decision.batch_shape  # type: ignore[attr-defined]
    repeated = bandit is not None and len(torch.unique(bandit)) < len(bandit)
    if lead != rows or batch != rows or repeated:
        raise ValueError(
            f"{where}: x must be one observation a bandit, from one decision, and ids must not repeat: this policy "
            f"remembers its arms; got rewards of shape {tuple(lead)} for a decision of shape {tuple(batch)}"
        )
    check_arm_ids(where, arm, rows, decision.num_arms)  # type: ignore[attr-defined]
    return decision, arm  # type: ignore[return-value]


def check_arms_fit(where: str, num_arms: int, given: int) -> None:
    if given != num_arms:
        raise ValueError(f"{where}: arms must be the {num_arms} arms that the policy was made for, got {given}")


def check_span(where: str, low: float, high: float) -> tuple[float, float]:
    low = check_number(where, "reward_low", low, low=-math.inf, open_low=True)
    return low, check_number(where, "reward_high", high, low=low, open_low=True)


def check_slate(where: str, k: object, mask: Tensor | None, num_arms: int) -> None:
    size = check_integer(where, "k", k, low=1)
    if mask is None:
        if size > num_arms:
            raise ValueError(f"{where}: k must be at most the number of arms, {num_arms}, got {size}")
        return
    allowed = mask.sum(-1)
    if values_readable(mask) and bool((allowed < size).any()):
        first = tuple((allowed < size).nonzero()[0].tolist())
        raise ValueError(
            f"{where}: k must be at most the number of allowed arms, {int(allowed[first])} in row {first}, got {size}"
        )


def check_head_policy(where: str, policy: Any, dim: int) -> None:
    if policy.remembers or policy.carries_gamma:
        kind = type(policy).__name__ + ("" if policy.remembers else " with coldness='lagged'")
        raise ValueError(
            f"{where}: feedback may come late and in any order, which {kind} cannot take; "
            "use SoftUCBPolicy ('current' or 'smooth'), LinUCB, LinTS, EpsilonGreedy or SoftElim"
        )
    if dim < 1:
        raise ValueError(f"{where}: policy must have dim 2 or more to hold an intercept and a feature, got {policy.dim}")
    if policy.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{where}: policy must be float32 or float64, got {policy.dtype}: shorter propensities are not exact"
        )


def check_policy(where: str, policy: object, kind: type) -> None:
    if not isinstance(policy, kind):
        raise TypeError(f"{where}: policy must be a {kind.__name__}, got {type(policy).__name__}")


def check_named(where: str, bandit: Tensor | None, bandits: torch.Size) -> None:
    if bandits and bandit is None:
        raise ValueError(
            f"{where}: bandit must be given, a tensor (N,) of ids: the policy keeps statistics of {bandits.numel()} bandits"
        )


def check_candidates(where: str, features: object, dim: int) -> None:
    """What an encoder gives: candidates' features."""
    if not isinstance(features, Tensor):
        raise TypeError(f"{where}: encoder must return a tensor (N, K, {dim}), got {type(features).__name__}")
    shape = features.shape
    ok = len(shape) in (2, 3) and shape[-1] == dim
    check_shape(where, "encoder output", shape, ok, f"(K, {dim}) or (N, K, {dim})")
    if not torch.compiler.is_compiling() and (shape[-2] < 1 or 0 in shape[:-2]):
        raise ValueError(f"{where}: every request needs at least one candidate, got an empty list, shape {tuple(shape)}")


def check_feedback(where: str, ids: object, reward: object, *, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
        got = f"dtype {ids.dtype}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{where}: id must be an int64 tensor of decision ids, got {got}")
    if not isinstance(reward, Tensor) or not reward.is_floating_point():
        got = f"dtype {reward.dtype}" if isinstance(reward, Tensor) else type(reward).__name__
        raise TypeError(f"{where}: reward must be a floating point tensor, got {got}")
    check_shape(where, "reward", reward.shape, reward.shape == ids.shape, f"{tuple(ids.shape)}, that of id")
    check_finite(where, "reward", reward)
    return ids.reshape(-1), reward.reshape(-1).to(dtype)


def check_carries_features(where: str, features: Tensor | None) -> Tensor:
    if features is None:
        raise ValueError(f"{where}: decision must come from this head, got one without features; use head(...)")
    return features


def check_known_decision(where: str, decision: int, position: int, answered: bool) -> None:
    """Called for a decision that is not open."""
    if answered:
        raise ValueError(
            f"{where}: decision {decision} (position {position}) was answered or dropped before; nothing was changed; "
            "use on_repeat='ignore' to pass over such feedback"
        )
    raise ValueError(f"{where}: decision {decision} (position {position}) is unknown to this head; nothing was changed")


def check_pending(where: str, pending: object, rows: torch.Size, dim: int) -> None:
    check_float_tensor(where, "pending", pending)
    shape, square = pending.shape, (dim, dim)  # type: ignore[attr-defined]
    check_shape(where, "pending", shape, shape in (square, (*rows, *square)), f"{square} or {(*rows, *square)}")
    check_finite(where, "pending", pending)  # type: ignore[arg-type]


def check_logged(
    where: str,
    served: Any,
    version: object,
    context: Tensor | None,
    candidates: Tensor | None,
    features: Tensor | None,
) -> None:
    check_integer(where, "version", version, low=0)
    if served.propensity is None:
        raise ValueError(
            f"{where}: served has no propensity (LinTS has none in closed form), and a log without it cannot be evaluated; "
            "use a policy with probabilities"
        )
    requests, dim = served.id.shape[: served.id.dim() - (served.k is not None)], served.x.shape[-1]
    if context is not None:
        check_shape(where, "context", context.shape, context.shape == requests, str(tuple(requests)))
    for name, value, trailing in (("candidates", candidates, "K"), ("features", features, f"K, {dim}")):
        if value is not None:
            size = trailing.count(",") + 1
            ok = value.dim() >= size and value.shape[: value.dim() - size] in ((), requests)
            check_shape(
                where, name, value.shape, ok and (size == 1 or value.shape[-1] == dim), f"({trailing}) or (N, {trailing})"
            )
    for name, value in (("context", context), ("candidates", candidates)):
        if value is not None and value.dtype != torch.int64:
            raise TypeError(f"{where}: {name} must be an int64 tensor, got dtype {value.dtype}")
    if features is not None:
        check_same_dtype(where, "features", features, "the decisions'", served.x.dtype)
        if candidates is not None and candidates.shape[-1] != features.shape[-2]:
            raise ValueError(
                f"{where}: candidates and features must have the same K, got {candidates.shape[-1]} and {features.shape[-2]}"
            )
    num = candidates.shape[-1] if candidates is not None else features.shape[-2] if features is not None else None
    if num is not None and num != served.num_arms:
        raise ValueError(f"{where}: candidates must be those that were decided on, {served.num_arms}, got {num}")


def check_same_dims(where: str, dims: Collection[int]) -> None:
    if len(set(dims)) > 1:
        raise ValueError(
            f"{where}: all decisions must have features of one length, got {sorted(set(dims))}; read the segments of one "
            "model at a time"
        )


def check_log(
    where: str,
    reward: Tensor | None,
    arm: Tensor | None,
    propensity: Tensor | None,
    target_probs: Tensor,
    reward_hat: Tensor | None,
) -> None:
    """Columns of a log, and what a target policy and a model say of them."""
    check_shape(
        where, "target_probs", target_probs.shape, target_probs.dim() == 2 and len(target_probs) > 1, "(n, K), n >= 2"
    )
    check_log_columns(where, reward, arm, propensity, target_probs.shape)
    if reward_hat is not None:
        shape = target_probs.shape
        check_shape(where, "reward_hat", reward_hat.shape, reward_hat.shape == shape, str(tuple(shape)))
        check_finite(where, "reward_hat", reward_hat)
    check_not_negative(where, "target_probs", target_probs)
    total = target_probs.detach().sum(-1)
    if not bool(((total - 1).abs() < 1e-3).all()):
        row = int(((total - 1).abs() >= 1e-3).nonzero()[0])
        raise ValueError(f"{where}: target_probs must sum to 1 in every row, got {float(total[row]):.4g} in row {row}")


def check_log_columns(
    where: str, reward: Tensor | None, arm: Tensor | None, propensity: Tensor | None, shape: torch.Size
) -> None:
    rows = shape[:1]
    for name, value in (("reward", reward), ("propensity", propensity)):
        if value is not None:
            check_shape(where, name, value.shape, value.shape == rows, str(tuple(rows)))
            check_finite(where, name, value)
    if arm is not None:
        check_arm_ids(where, arm, rows, shape[1])
    if propensity is not None and not bool(((propensity > 0) & (propensity <= 1)).all()):
        row = int((~((propensity > 0) & (propensity <= 1))).nonzero()[0])
        raise ValueError(f"{where}: propensity must be in (0, 1], got {float(propensity[row])} in row {row}")


def check_overlap(where: str, weights: Tensor) -> None:
    if not bool((weights > 0).any()):
        raise ValueError(
            f"{where}: no logged action has a weight above 0: the target policy never plays what was logged, and the log "
            "says nothing about it; use direct_method, or a log that explored more"
        )


def check_scored(where: str, policy: Any, scores: bool) -> None:
    if scores and getattr(policy, "coldness", "") not in ("current", "smooth"):
        raise ValueError(
            f"{where}: a trajectory's gradient needs SoftUCBPolicy with coldness 'smooth' (or 'current', biased), "
            f"got {type(policy).__name__} {getattr(policy, 'coldness', '')}".rstrip()
        )


def check_one_beta(where: str, raw: Tensor | None) -> None:
    if raw is None or raw.dim():
        got = "a module" if raw is None else f"{tuple(raw.shape)}"
        raise ValueError(f"{where}: policy must have one beta for all, got {got}; use beta_init as a number")


def check_same_map(where: str, mine: object, saved: object) -> None:
    if mine != saved:
        raise ValueError(f"{where}: the state is of a head with {saved}, got it for one with {mine}; make the head alike")


def check_replica(where: str, replica: int, bits: int) -> int:
    check_integer(where, "replica", replica, low=0)
    if replica >= 1 << bits:
        raise ValueError(f"{where}: replica must be below 2**{bits}, got {replica}")
    return replica


def check_nothing_open(where: str, count: int) -> None:
    if count:
        raise ValueError(
            f"{where}: {count} decisions wait for feedback with features of the old normalisation; answer them first, or "
            "head.drop(head.open_decisions)"
        )


def check_replayed(where: str, arm: object, reward: object, shape: torch.Size) -> None:
    """Batches of a replay buffer: one item a request."""
    check_shape(where, "encoder output", shape, len(shape) == 3, "(N, K, d)")
    check_arm_ids(where, arm, shape[:1], shape[1])
    check_float_tensor(where, "reward", reward)


def check_log_place(where: str, folder: object, there: bool, beyond: bool) -> None:
    if not there:
        raise ValueError(f"{where}: {folder} holds no decision log")
    if beyond:
        raise ValueError(f"{where}: the checkpoint is ahead of the log in {folder}: they do not belong together")


def check_regression_sums(where: str, gram: Tensor, moment: Tensor, energy: Tensor, count: Tensor) -> None:
    """X^T X, X^T y, y^T y and n of a linear regression, or of a batch of them."""
    for name, value in (("gram", gram), ("moment", moment), ("energy", energy)):
        check_float_tensor(where, name, value)
        check_finite(where, name, value)
    d, batch = moment.shape[-1:], moment.shape[:-1]
    check_shape(where, "gram", gram.shape, moment.dim() >= 1 and gram.shape == (*batch, *d, *d), f"{(*batch, *d, *d)}")
    check_shape(where, "energy", energy.shape, energy.shape == batch, str(tuple(batch)))
    check_shape(where, "count", count.shape, count.shape == batch, str(tuple(batch)))
    if float(count.sum()) < 2 or float(count.min()) < 0:
        raise ValueError(f"{where}: count must be at least 2 observations in all, got {float(count.sum()):g}")
    if not float(energy.sum()) > 0:
        raise ValueError(
            f"{where}: energy must be above 0, got {float(energy.sum()):g}: every reward is 0, which says nothing"
        )
    lowest, largest = (float(v) for v in torch.linalg.eigvalsh(gram.double()).aminmax())
    uneven = float((gram - gram.mT).abs().max())
    if not largest > 0 or lowest < -1e-6 * largest or uneven > 1e-6 * largest:
        raise ValueError(
            f"{where}: gram must be X^T X, symmetric with eigenvalues of at least 0 and some above, got eigenvalues from "
            f"{lowest:g} to {largest:g}"
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


def check_decision_file(where: str, path: Any) -> None:
    if not path.exists():
        raise ValueError(f"{where}: {path} is not there; give a decision log's folder, or a Parquet file of decisions")
    if path.name.endswith(".rewards.parquet"):
        raise ValueError(f"{where}: {path} holds rewards; give the .decisions.parquet file beside it, or the folder")


def unreadable_parquet(path: object, error: Exception) -> ValueError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"read_decisions: {path} cannot be read as Parquet, cut short or of another kind ({first})")


def check_table_columns(where: str, path: object, there: Collection[str], needed: Collection[str]) -> None:
    missing = [name for name in needed if name not in there]
    if missing:
        raise ValueError(
            f"{where}: {path} must have the columns {', '.join(needed)}, got none named {', '.join(missing)} among "
            f"{', '.join(there)}; rename what you have, or give the folder of a DecisionLog"
        )


def check_list_column(where: str, name: str, column: Any) -> None:
    """A column of lists without a null among them."""
    kind = str(column.type)
    if not kind.startswith(("list<", "large_list<", "fixed_size_list<")):
        raise TypeError(f"{where}: column {name} must hold lists of numbers, got {kind}; join its parts to one list a row")
    if column.null_count:
        raise ValueError(
            f"{where}: column {name} must have a list in every row, got {column.null_count} nulls; leave them out"
        )


def check_number_column(where: str, name: str, column: Any, *, whole: bool, nulls: bool) -> None:
    kind = str(column.type)
    numbers = ("int", "uint") if whole else ("int", "uint", "float", "double", "halffloat")
    if not kind.startswith((*numbers, "null") if nulls else numbers):
        raise TypeError(f"{where}: column {name} must hold {'whole numbers' if whole else 'numbers'}, got {kind}; cast it")
    if column.null_count and not nulls:
        raise ValueError(
            f"{where}: column {name} must have a number everywhere, got {column.null_count} nulls; leave those rows out"
        )


def check_whole_candidates(where: str, lengths: Any, candidates: Any, dim: int) -> None:
    """``features`` of every row: d numbers for each candidate."""
    if dim and (lengths % dim).any():
        row = int((lengths % dim != 0).argmax())
        raise ValueError(
            f"{where}: features must have {dim} numbers, as x has, for each candidate, got {int(lengths[row])} in row {row}"
        )
    k = int(lengths.max(initial=0)) // max(dim, 1)
    if k and candidates.shape[1] and candidates.shape[1] != k:
        raise ValueError(
            f"{where}: candidates and features must have the same K, got {candidates.shape[1]} and {k} in the longest rows"
        )


def check_logged_numbers(where: str, log: Any) -> None:
    """Columns of a log that is to be learned from."""
    if not len(log.id):
        raise ValueError(f"{where}: at least one decision is needed, got none")
    if not log.x.shape[1]:
        raise ValueError(f"{where}: x must have at least one number in every row, got none")
    check_finite(where, "x", log.x)
    check_finite(where, "features", log.features)
    check_log_columns(where, None, None, log.propensity, log.x.shape)
    if bool(log.reward.isinf().any()):
        raise ValueError(
            f"{where}: reward must be finite, got an infinite one in row {int(log.reward.isinf().nonzero()[0])}"
        )
    if not bool((~log.reward.isnan()).any()):
        raise ValueError(
            f"{where}: no decision has a reward, of {len(log.id)}; bring the rewards, joined by id, or the log's folder"
        )


def check_chosen(where: str, arm: Tensor, mask: Tensor, features: Tensor | None = None, x: Tensor | None = None) -> None:
    """A log's arm is a place in its candidate list, that of x."""
    check_arm_ids(where, arm, mask.shape[:1], mask.shape[1])
    allowed = mask.gather(1, arm.unsqueeze(-1)).squeeze(-1)
    if not bool(allowed.all()):
        row = int((~allowed).nonzero()[0])
        raise ValueError(f"{where}: arm must be an allowed candidate, got {int(arm[row])} in row {row}, which is not one")
    if features is not None and x is not None:
        same = (features[torch.arange(len(arm), device=arm.device), arm] == x).all(-1)
        if not bool(same.all()):
            row = int((~same).nonzero()[0])
            raise ValueError(
                f"{where}: features must have x at the place of arm, got another vector in row {row} and in "
                f"{int((~same).sum()) - 1} more; arm is a place in the list of candidates, from 0"
            )


def check_rewards_there(where: str, reward: Tensor, dim: int) -> None:
    count = len(reward)
    if count > dim and bool((reward == reward[0]).all()):
        raise ValueError(f"{where}: rewards must differ to say anything of x, got {float(reward[0]):g} in all {count}")
    if count <= dim:
        raise ValueError(
            f"{where}: more rewards are needed than theta has components, {dim}, got {count}; bring a longer log, or fewer "
            "features"
        )


def check_part(where: str, cut: int, count: int) -> None:
    if cut < 2 or count - cut < 2:
        raise ValueError(
            f"{where}: share must leave at least two decisions on either side, got {cut} and {count - cut} of {count}; "
            "bring a longer log, or another share"
        )


def check_offered_known(where: str, known: bool) -> None:
    if not known:
        raise ValueError(
            f"{where}: the log does not say what was on offer, and what the policy would have chosen cannot be known; log "
            "candidates= or features= with the decisions"
        )


def check_one_problem(where: str, batch: torch.Size) -> None:
    if batch:
        raise ValueError(
            f"{where}: problem must be a single one, got a batch {tuple(batch)}; choose one of it, as problem[0]"
        )


def check_policy_file(path: object, text: Collection[str], tensors: Collection[str], *, needed: Collection[str]) -> None:
    missing = [name for name in (*needed, "beta", "statistics") if name not in (*text, *tensors)]
    if missing:
        raise ValueError(f"policy file {path}: is not one of a SoftUCBPolicy: {', '.join(missing)} is not in it")


def check_dual(where: str, auto: bool) -> None:
    if not auto:
        raise ValueError(f"{where}: eta must be 'auto' for it, got a number, which no reward moves")


def check_dense_ids(where: str, rows: int, met: int) -> None:
    """Ids are rows of the statistics: far-off ones would ask for memory that nobody uses."""
    if rows > 64 * met + 4096:
        raise ValueError(
            f"{where}: bandit ids must be rows of the statistics, from 0, got {met} bandits with ids up to {rows - 1}; "
            "number them anew"
        )
