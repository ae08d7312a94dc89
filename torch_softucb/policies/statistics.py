"""Ridge statistics of a batch of bandits as the buffer of a module."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypedDict

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_float_tensor, check_integer, check_number
from torch_softucb.functional.ridge import _ridge_root
from torch_softucb.policies._checks import check_batch_shape, check_prior
from torch_softucb.policies.guard import Guard
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import RidgeState, RowLayout, pack
from torch_softucb.policies.state_checks import check_names, check_parameters, check_statistics
from torch_softucb.rank_state import RankState


class PolicyKwargs(TypedDict, total=False):
    """Keyword arguments that all policies accept; see :class:`~torch_softucb.BanditPolicy` for their meaning."""

    ridge_alpha: float
    refresh_every: int
    prior: GaussianPrior | None
    device: torch.device | str | None
    dtype: torch.dtype | None


_PRIOR = ("prior_mean", "prior_covariance", "prior_numbers")  # the last one: noise_std and offset


class RidgeStatistics(RankState):
    """Module that owns the ridge statistics of one bandit, or of a batch of independent ones.

    The statistics are one float64 buffer whatever the dtype of the module. They are part of ``state_dict`` and follow
    ``.to()``. The arguments are those of :class:`~torch_softucb.BanditPolicy`.
    """

    _ddp_params_and_buffers_to_ignore = ("statistics", *_PRIOR)  # else DDP overwrites them with those of rank 0
    own_settings: ClassVar[tuple[str, ...]] = ()  # constructor keywords of a subclass that are attributes of the same name
    statistics: Tensor  # (*B, size) rows, packed as `layout` describes
    _like: Tensor  # empty; has the dtype and device of arms and decisions
    _fresh_memory: Tensor  # (M,)
    _prior: GaussianPrior | None  # what the buffers of the prior hold

    def __init__(
        self,
        dim: int,
        *,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        prior: GaussianPrior | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: Tensor | None = None,  # (M,)
    ) -> None:
        super().__init__()
        self.guard = Guard()
        name = type(self).__name__
        self.dim = check_integer(name, "dim", dim, low=1)
        self.ridge_alpha = check_number(name, "ridge_alpha", ridge_alpha, low=0.0, open_low=True)
        self.refresh_every = check_integer(name, "refresh_every", refresh_every, low=1)
        self.register_buffer("_like", torch.empty(0, dtype=dtype, device=device), persistent=False)
        check_float_tensor(name, "dtype", self._like)
        fresh_memory = self._like.new_empty(0) if memory is None else memory.to(self._like.device)
        self.register_buffer("_fresh_memory", fresh_memory, persistent=False)
        self.layout = RowLayout(self.dim, len(fresh_memory))
        for buffer in _PRIOR:
            self.register_buffer(buffer, None)
        self._set_prior(self._checked_prior(name, prior))
        self.register_buffer("statistics", self.fresh_rows())

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of arms, rewards and decisions."""
        return self._like.dtype

    @property
    def device(self) -> torch.device:
        """Device of statistics and parameters."""
        return self._like.device

    @property
    def batch_shape(self) -> torch.Size:
        """Shape ``(*B,)`` of the batch of bandits, ``()`` for one bandit."""
        return self.statistics.shape[:-1]

    @property
    def prior(self) -> GaussianPrior | None:
        """Prior of every bandit; None if it is mean 0 and V = ridge_alpha I."""
        return self._prior

    @property
    def prior_tensors(self) -> tuple[Tensor, ...]:
        """Buffers of the prior, as in ``state_dict``; empty without one."""
        return tuple(value for value in (self._buffers[name] for name in _PRIOR) if value is not None)

    def _checked_prior(self, where: str, prior: GaussianPrior | None) -> GaussianPrior | None:
        if prior is None:
            return None
        check_prior(where, prior, self.dim, self.ridge_alpha)
        return prior.to(self.device)

    def _set_prior(self, prior: GaussianPrior | None) -> None:
        self._prior = prior
        values: tuple[Tensor | None, ...] = (None, None, None)
        if prior is not None:
            numbers = torch.tensor((prior.noise_std, prior.offset), dtype=torch.float64, device=self.device)
            values = (prior.mean, prior.covariance, numbers)
        self._buffers.update(zip(_PRIOR, values, strict=True))

    @property
    def state(self) -> RidgeState:
        """Views of V, root, b, number of observations, gamma and memory. Change them through ``update`` only."""
        return self.layout.unpack(self.statistics)

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor that, together with ``dim``, reproduce the policy without its statistics.

        They are those of :class:`PolicyKwargs` and the ``own_settings`` of the policy and its base classes.
        """
        own = [name for cls in reversed(type(self).__mro__) for name in vars(cls).get("own_settings", ())]
        return {name: getattr(self, name) for name in (*PolicyKwargs.__annotations__, *own)}

    def fresh_memory(self, batch_shape: tuple[int, ...] = ()) -> Tensor:  # (*batch_shape, M)
        """Memory of bandits without observations; M is 0 for policies that keep no memory."""
        return self._fresh_memory.expand(*batch_shape, -1).clone()

    def fresh_rows(self, batch_shape: tuple[int, ...] = ()) -> Tensor:  # (*batch_shape, size)
        """Statistics of bandits without observations; with a prior, they are in whitened coordinates."""
        return self.layout.fresh(batch_shape, self.ridge_alpha, self.fresh_memory())

    @torch.inference_mode(False)
    def reset(self, *, batch_shape: tuple[int, ...] = (), prior: GaussianPrior | Literal["keep"] | None = "keep") -> None:
        """Discard all statistics and start again.

        Args:
            batch_shape: number of independent bandits, such as ``(1024,)``; ``()`` is one bandit.
            prior: prior of every bandit from now on; None for none. By default the policy keeps the one it has.
        """
        where = f"{type(self).__name__}.reset"
        check_batch_shape(where, batch_shape)
        with self.guard.lock:
            self.guard.recover()
            old, before = self._prior, self._buffers["statistics"]
            new = old if isinstance(prior, str) and prior == "keep" else self._checked_prior(where, prior)

            def write() -> None:
                self._set_prior(new)
                self._buffers["statistics"] = self.fresh_rows(tuple(batch_shape))

            def undo() -> None:
                self._set_prior(old)
                self._buffers["statistics"] = before

            self.guard.commit(write, undo)

    def cache_error(self) -> Tensor:  # (*B,)
        """Error of each cached inverse, max |I - root^T V root|; times d, it bounds the relative error of width^2."""
        return F.ridge_cache_error(self.state.V, self.state.root)

    @torch.inference_mode(False)
    @torch.no_grad()
    def refresh(self) -> None:
        """Recompute every cached inverse from V."""
        with self.guard.lock:
            self.guard.recover()
            old = self.state
            self.statistics = pack(old._replace(root=_ridge_root(old.V)))

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        kept = {name: self._buffers[name] for name in ("statistics", *_PRIOR)}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in kept.items():
            new = self._buffers[name]
            if old is not None and new is not None and new.dtype != torch.float64:
                # .float() and .half() change decisions; V, b and the prior keep all digits
                self._buffers[name] = old.to(new.device)
        if self._prior is not None and self._prior.mean.is_meta and self.device.type != "meta":
            self._prior = None  # to_empty(): the buffers have no values until a state is loaded
        elif self._prior is not None:
            self._set_prior(self._prior.to(self.device))
        return self

    def impossible_memory(self, memory: Tensor) -> Tensor:  # (n, M) -> (n,)
        """Return which rows hold a memory that no sequence of updates leads to; used when a state is loaded."""
        return torch.zeros_like(memory[..., 0], dtype=torch.bool)

    def check_state(self, state_dict: Mapping[str, Any], *, prefix: str = "", strict: bool = True) -> None:
        """Raise unless a state dict holds a possible state of this policy; changes nothing.

        ``load_state_dict`` calls this, also that of a module which contains the policy, before it changes the policy.

        Args:
            state_dict: entries by name.
            prefix: start of the names of this policy's entries, such as ``policy.``.
            strict: whether all entries must be there, and no others.

        Raises:
            ValueError: if entries are missing or unknown, or have the wrong dtype or shape; if a parameter is not finite;
                or if the statistics are impossible, see :func:`~torch_softucb.policies.state_checks.check_statistics`.
        """
        where = f"{type(self).__name__}.load_state_dict"
        own = {name[len(prefix) :]: value for name, value in state_dict.items() if name.startswith(prefix)}
        if strict:
            check_names(where, self, own)
        check_parameters(where, self, own, skip=("statistics",))
        if "statistics" in own:
            check_statistics(where, self, own["statistics"])
        self._saved_prior(own)

    def _saved_prior(self, own: Mapping[str, Any]) -> GaussianPrior | None:
        """Return the prior of a state dict; None if it has none."""
        parts = [own.get(name) for name in _PRIOR]
        if all(part is None or part.is_meta for part in parts):
            return None
        mean, covariance, numbers = parts
        if mean is None or covariance is None or numbers is None:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: the state must have all of {', '.join(_PRIOR)} or none"
            )
        noise_std, offset = numbers.tolist()
        return GaussianPrior(mean, covariance, noise_std=noise_std, offset=offset)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state; one that :meth:`check_state` refuses changes nothing."""
        if strict:
            check_names(f"{type(self).__name__}.load_state_dict", self, state_dict)
        return super().load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        self.check_state(state_dict, prefix=prefix, strict=False)  # before anything is assigned, submodules included
        saved = state_dict.get(prefix + "statistics")
        if saved is not None:
            self.statistics = self.statistics.new_empty(saved.shape)  # the batch of bandits is that of the checkpoint
        prior = self._saved_prior({name: state_dict.get(prefix + name) for name in _PRIOR})
        if prior is not None and self._buffers["prior_mean"] is not None:
            self._set_prior(prior.to(self.device))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """Sizes and settings, for ``repr``."""
        shown: dict[str, Any] = {"dim": self.dim, "ridge_alpha": self.ridge_alpha, "batch_shape": tuple(self.batch_shape)}
        if self._prior is not None:
            shown["prior"] = self._prior
        shown |= {name: value for name, value in self.settings.items() if name not in PolicyKwargs.__annotations__}
        return ", ".join(
            f"{name}={value:.6g}" if type(value) is float else f"{name}={value!r}" for name, value in shown.items()
        )
