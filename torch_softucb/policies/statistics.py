"""Ridge statistics of a batch of bandits as the buffer of a module."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_float_tensor, check_integer, check_number
from torch_softucb.functional.ridge import _ridge_root
from torch_softucb.policies._checks import check_batch_shape
from torch_softucb.policies.guard import Guard
from torch_softucb.policies.rows import RidgeState, RowLayout, pack
from torch_softucb.policies.state_checks import check_names, check_parameters, check_statistics
from torch_softucb.rank_state import RankState


class PolicyKwargs(TypedDict, total=False):
    """Keyword arguments that all policies accept; see :class:`~torch_softucb.BanditPolicy` for their meaning."""

    ridge_alpha: float
    refresh_every: int
    device: torch.device | str | None
    dtype: torch.dtype | None


class RidgeStatistics(RankState):
    """Module that owns the ridge statistics of one bandit, or of a batch of independent ones.

    The statistics are one float64 buffer whatever the dtype of the module. They are part of ``state_dict`` and follow
    ``.to()``. The arguments are those of :class:`~torch_softucb.BanditPolicy`.
    """

    _ddp_params_and_buffers_to_ignore = ("statistics",)  # else DDP overwrites them with those of rank 0
    own_settings: ClassVar[tuple[str, ...]] = ()  # constructor keywords of a subclass that are attributes of the same name
    statistics: Tensor  # (*B, size) rows, packed as `layout` describes
    _like: Tensor  # empty; has the dtype and device of arms and decisions
    _fresh_memory: Tensor  # (M,)

    def __init__(
        self,
        dim: int,
        *,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
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
        self.register_buffer("statistics", self.layout.fresh((), self.ridge_alpha, fresh_memory))

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

    @torch.inference_mode(False)
    def reset(self, *, batch_shape: tuple[int, ...] = ()) -> None:
        """Discard all statistics and start with ``batch_shape`` independent bandits; ``()`` is one bandit."""
        check_batch_shape(f"{type(self).__name__}.reset", batch_shape)
        with self.guard.lock:
            self.guard.recover()
            self.statistics = self.layout.fresh(tuple(batch_shape), self.ridge_alpha, self._fresh_memory)

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
        statistics = self.statistics
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.statistics.dtype != torch.float64:  # .float() and .half() change decisions; V and b keep all digits
            self.statistics = statistics.to(self.statistics.device)
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
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """Sizes and settings, for ``repr``."""
        shown: dict[str, Any] = {"dim": self.dim, "ridge_alpha": self.ridge_alpha, "batch_shape": tuple(self.batch_shape)}
        shown |= {name: value for name, value in self.settings.items() if name not in PolicyKwargs.__annotations__}
        return ", ".join(
            f"{name}={value:.6g}" if type(value) is float else f"{name}={value!r}" for name, value in shown.items()
        )
