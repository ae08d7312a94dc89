"""Whole stretches of rounds in one C++ call: built on first use by torch's extension mechanism, never needed to import.

The eager round is the reference; this one gives the same numbers to rounding, for the policies that have a
:class:`~torch_softucb.policies.decision.NativeRule`.
"""

import functools
import hashlib
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from torch_softucb.policies._checks import check_beta_fits
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.simulation._checks import check_native
from torch_softucb.simulation.backends.compiled import Fast, Played, Playing, find_compiler, warn_eager
from torch_softucb.simulation.state import ForgettingArms
from torch_softucb.simulation.trajectory import SCORES, GradientTerms

_SOURCE = Path(__file__).with_name("rounds.cpp")
_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
_KINDS = ("soft_current", "soft_lagged", "soft_smooth", "greedy", "thompson")  # the order of rounds.cpp
_LANES = 16  # of rounds.cpp
_LARGE = 2**14
_log = logging.getLogger(__name__)


def _name() -> str:
    """Of the built library: another source, torch or processor is another library, though a cache folder be shared."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    processor = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    parts = (_SOURCE.read_text(), torch.__version__, platform.machine(), processor)
    return "torch_softucb_" + hashlib.sha256("\n".join([*parts, *_FLAGS]).encode()).hexdigest()[:12]


@contextmanager
def _own_tools() -> Iterator[None]:
    """This environment's programs on the path: ninja is there though nobody activated the environment."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


@functools.cache
def _kernel() -> Callable[..., None] | None:
    """The kernel, built if need be; None, after a warning, where it cannot be built."""
    from torch.utils import cpp_extension

    with _own_tools():
        if find_compiler() is None or not cpp_extension.is_ninja_available():
            warn_eager("compile='native' needs a C++ compiler and ninja (pip install ninja), and not both were found")
            return None
        mvec = ["-lmvec"] if platform.system() == "Linux" and platform.machine() == "x86_64" else []
        _log.info("building the native kernel; this is done once")
        try:
            cpp_extension.load(
                _name(), [str(_SOURCE)], is_python_module=False, extra_cflags=_FLAGS, extra_ldflags=["-fopenmp", *mvec]
            )
        except (RuntimeError, OSError) as error:
            warn_eager(f"the native kernel could not be built ({str(error).splitlines()[0]})")
            return None
    kernel: Callable[..., None] = torch.ops.torch_softucb.rounds.default
    return kernel


def _situated(simulation: Playing) -> tuple[Tensor, Tensor | None]:
    """beta of the next round, of a policy that looks around."""
    policy = simulation.policy
    assert isinstance(policy, SoftUCBPolicy)
    estimate = simulation.arms.estimate(simulation.num_observations(simulation.t), simulation.gamma, simulation.memory)
    with torch.no_grad():
        return policy.situated_beta(estimate, mask=simulation.problem.mask)


def _looked(simulation: Playing, num_observations: Tensor) -> Tensor | None:  # (n, F)
    """What a module that does not look around has looked at."""
    module = getattr(simulation.policy, "beta_module", None)
    return None if module is None else num_observations.unsqueeze(-1)[:, : len(module.inputs)]


def _play(simulation: Playing, noise: Tensor, draws: Tensor) -> Played:
    kernel = _kernel()
    assert kernel is not None
    arms, means = simulation.arms, simulation.means
    batch, n = means.shape[1:], len(noise)
    num_observations = simulation.num_observations(simulation.t) + torch.arange(n, device=means.device)
    rule = simulation.policy.native_rule(num_observations)
    assert rule is not None
    if simulation.policy.needs_estimate:
        scale, situation = _situated(simulation)
        situation = None if situation is None else situation.unsqueeze(0)
    else:
        scale, situation = rule.scale, _looked(simulation, num_observations)
    if not rule.by_round:
        check_beta_fits(type(simulation.policy).__name__, scale.shape, batch)
        scale = scale.reshape(1, -1)
    if simulation.policy.normals_per_decision:
        draws = draws.movedim(-1, 1)
    mask = simulation.problem.mask
    if mask is not None:
        mask = mask.expand(*batch, -1).movedim(-1, 0).contiguous()
    regret = torch.empty_like(noise)
    terms = means.new_zeros(3, *batch) if simulation.gradient else None
    scores = means.new_empty(len(SCORES), *noise.shape) if simulation.scores else None
    kernel(
        _KINDS.index(rule.rule),
        arms.arms if arms.shared else arms.arms.flatten(2),
        (means if simulation.drift is None else simulation.drift[0]).view(len(means), -1),
        simulation.best,
        mask,
        *((None, None) if simulation.drift is None else simulation.drift[1:]),
        simulation.t,
        noise,
        draws.contiguous(),
        scale,
        rule.odds,
        rule.smoothing,
        rule.epsilon,
        arms.mu_hat,
        arms.width_sq,
        arms.root,
        *((arms.V, arms.b, arms.discount, arms.ridge_alpha) if isinstance(arms, ForgettingArms) else (None, None, 1.0, 1.0)),
        arms.running_sums,
        simulation.gamma,
        regret,
        terms,
        scores,
    )
    return regret, None if terms is None else GradientTerms(*terms), scores, situation if simulation.scores else None


def native_rounds(simulation: Playing) -> Fast | None:
    rule = simulation.policy.native_rule(simulation.num_observations(0).unsqueeze(0))
    check_native("rollout", simulation.policy, rule, simulation.gradient, simulation.means.device)
    k, batch = simulation.means.shape[0], simulation.best.numel()
    if batch < _LANES and k * simulation.policy.dim > _LARGE:  # spare lanes would cost more than the calls that are saved
        return None
    return None if _kernel() is None else _play
