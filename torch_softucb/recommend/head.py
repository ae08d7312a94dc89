"""SoftUCB as the exploration head of a recommender."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_integer, check_number
from torch_softucb.policies._checks import check_bandit, check_offered, check_policy, check_slate
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.guard import load_whole
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.recommend._checks import (
    check_bandit_given,
    check_candidates,
    check_carries_features,
    check_feedback,
    check_head_policy,
    check_known_decision,
    check_nothing_open,
    check_room,
)
from torch_softucb.recommend.features import FeatureMap
from torch_softucb.recommend.ids import END
from torch_softucb.recommend.open_decisions import OpenDecisions
from torch_softucb.recommend.pending import pending_gram
from torch_softucb.recommend.refit import Replay, rebuild_statistics
from torch_softucb.recommend.serving import Served, draw_items, shown_features
from torch_softucb.recommend.state_checks import check_head_state


class SoftUCBHead(OpenDecisions):
    """Exploration head on top of any encoder: candidates in, a decision with its exact probabilities out.

    Statistics, open decisions, normalisation and the position in the random stream are part of ``state_dict``.

    Several threads may use one head: decisions are made without a lock, changes of the state under one. A call that raises
    has changed nothing, whether because of bad input, a failed operation or a signal. In a forked child process the head
    takes a new random stream and new ids by itself. Calibrate, refit and load states before serving, or while it pauses.

    Args:
        encoder: module that returns the features of the candidates, (K, d) or (N, K, d); called with positional arguments.
        policy: :class:`~torch_softucb.SoftUCBPolicy`, or another policy over features; with ``dim=`` instead,
            :meth:`SoftUCBPolicy.auto <torch_softucb.SoftUCBPolicy.auto>`, which needs no setting. After
            ``policy.reset(batch_shape=(users,))`` each user or segment has separate statistics, selected by ``bandit=ids``.
        dim: number of features that the encoder returns, if no policy is given.
        intercept: append a constant feature; the policy's dim is then the encoder's plus one.
        normalise: normalise the features by the mean and deviation that :meth:`calibrate` finds.
        discount: share of a bandit's statistics that is kept at each call of :meth:`feedback` that contains the bandit.
            Use a value below 1 if rewards drift.
        narrow_pending: let decisions that wait for their reward narrow the width (never the mean), so that a burst of
            requests does not explore the same item over and over.
        max_open: largest number of decisions that may wait for their reward, which bounds the memory. At the limit,
            :meth:`serve` raises: which rewards no longer matter is for the service to decide, with :meth:`drop`.
        seed: seed of the draws; from the operating system by default. The draw of a decision depends on the seed and on
            the number of decisions before it only.
        replica: number in [0, 2**28) that the ids start with; from the operating system by default, so that a new head
            issues new ids.

    Example:
        >>> items = torch.nn.Embedding(100, 4)
        >>> head = SoftUCBHead(items, dim=4)
        >>> candidates = torch.tensor([[3, 14, 15], [92, 65, 35]])
        >>> served = head.serve(head(candidates))
        >>> served.propensity.shape
        torch.Size([2])
        >>> head.feedback(served.id, torch.tensor([1.0, 0.0]))  # whenever it comes
        2
        >>> head.policy.state.num_observations
        tensor(2., dtype=torch.float64)
    """

    # these differ between ranks; DDP would overwrite them with those of rank 0
    _ddp_params_and_buffers_to_ignore = (
        "policy.statistics",
        "stream",
        "replicas",
        "pending.id",
        "pending.x",
        "pending.bandit",
    )

    def __init__(
        self,
        encoder: nn.Module,
        policy: BanditPolicy | None = None,
        *,
        dim: int | None = None,
        intercept: bool = False,
        normalise: bool = False,
        discount: float = 1.0,
        narrow_pending: bool = False,
        max_open: int = 1_000_000,
        seed: int | None = None,
        replica: int | None = None,
    ) -> None:
        if (policy is None) == (dim is None):
            raise ValueError(
                "SoftUCBHead: expected either a policy or dim, the number of features that the encoder returns, got "
                f"{'neither' if policy is None else 'both'}; as in SoftUCBHead(encoder, dim=32)"
            )
        if policy is None:
            policy = SoftUCBPolicy.auto(check_integer("SoftUCBHead", "dim", dim, low=1) + int(intercept))
        check_policy("SoftUCBHead", policy, BanditPolicy)
        dim = policy.dim - int(intercept)
        check_head_policy("SoftUCBHead", policy, dim)
        super().__init__(policy, max_open=max_open, seed=seed, replica=replica)
        self.encoder = encoder
        self.features = FeatureMap(dim, intercept=intercept, normalise=normalise).to(policy.device)
        self.discount = check_number("SoftUCBHead", "discount", discount, low=0.0, high=1.0, open_low=True, closed_high=True)
        self.narrow_pending = narrow_pending

    def encode(self, *inputs: Any) -> Tensor:  # (K, d) or (N, K, d)
        """Return the features on which the policy decides."""
        values = self.encoder(*inputs)
        check_candidates("SoftUCBHead", values, self.features.dim)
        features: Tensor = self.features(values)
        return features

    def forward(
        self,
        *inputs: Any,
        mask: Tensor | None = None,  # (K,) or (N, K), True = allowed
        bandit: Tensor | None = None,  # (N,) ids of users or segments
    ) -> Decision:
        """Decide on the candidates that the encoder computes from ``inputs``; changes nothing.

        Args:
            inputs: positional arguments of the encoder.
            mask: candidates that may be shown; by default all of them.
            bandit: ids of the bandits whose statistics to use; required if the policy has a batch of bandits.

        Returns:
            A decision for each request, for :meth:`serve` and :meth:`expected_reward`.
        """
        check_bandit_given("SoftUCBHead", bandit, self.policy.batch_shape)
        if bandit is not None:
            check_bandit("SoftUCBHead", bandit, self.policy.batch_shape, device=self.policy.device)
        features = self.encode(*inputs)
        decision: Decision = self.policy(features, mask=mask, bandit=bandit, pending=self._pending_gram(bandit))
        return decision.with_request(features=features, bandit=bandit)

    def _pending_gram(self, bandit: Tensor | None) -> Tensor | None:  # (N,) -> (d, d) or (N, d, d)
        if not self.narrow_pending or not len(self.pending):
            return None
        if torch.compiler.is_compiling():
            raise RuntimeError(
                "SoftUCBHead: narrow_pending depends on the open decisions and cannot be exported or compiled; "
                "use narrow_pending=False"
            )
        with self.guard.lock:
            self.guard.recover()
            x, owner = self.pending.all()
        return pending_gram(x, owner, bandit)

    @torch.inference_mode(False)
    @torch.no_grad()
    def serve(self, decision: Decision, *, k: int | None = None) -> Served:
        """Draw an item, or a slate of ``k`` items, per request; each gets an id and stays open until its feedback."""
        features = check_carries_features("SoftUCBHead.serve", decision.features)
        if k is not None:
            check_slate("SoftUCBHead.serve", k, decision.mask, decision.num_arms)
        shape = decision.batch_shape if k is None else torch.Size((*decision.batch_shape, k))
        bandit, count = decision.bandit, shape.numel()
        owner = None if bandit is None else bandit.view(*bandit.shape, *[1] * (k is not None)).expand(shape).reshape(-1)
        beta = None if decision.beta is None else decision.beta.detach().clone()
        with self.guard.lock:
            self.guard.recover()
            check_room("SoftUCBHead.serve", len(self.pending), count, self.max_open)
            first, key, after = self._next_ids(count)
            flat = torch.arange(first, first + count, device=key.device)
            ids, counters = flat.view(shape), (flat % END).view(shape)
            request = counters if k is None else counters[..., 0]
            arm, propensity = draw_items(decision, key, request, k=k, num_normals=self.policy.normals_per_decision)
            x = shown_features(features, arm, decision.batch_shape)
            served = Served(ids, arm, propensity, x, beta, bandit, decision.mask, k, decision.num_arms)
            self._open(flat, x.reshape(-1, x.shape[-1]), owner, after)
        return served

    @torch.inference_mode(False)
    def feedback(self, id: Tensor, reward: Tensor, *, on_repeat: str = "refuse") -> int:  # (*N,), (*N,)
        """Update the statistics with rewards of open decisions, in any order and batching.

        Args:
            id: ids from :class:`Served`.
            reward: one reward per id.
            on_repeat: what to do with a decision that was answered or dropped before: ``"refuse"`` or ``"ignore"``.

        Returns:
            The number of rewards that were used.

        Raises:
            ValueError: if an id is unknown, or repeated under ``"refuse"``. The whole batch is then refused and nothing is
                changed.
        """
        where = "SoftUCBHead.feedback"
        check_choice(where, "on_repeat", on_repeat, ("refuse", "ignore"))
        ids, rewards = check_feedback(where, id, reward, dtype=self.policy.dtype)
        with self.guard.lock:
            self.guard.recover()
            new: dict[int, int] = {}  # decision -> position
            for position, decision in enumerate(ids.tolist()):
                if decision in self.pending and decision not in new:
                    new[decision] = position
                elif not (answered := decision in new or self.has_given(decision)) or on_repeat == "refuse":
                    check_known_decision(where, decision, position, answered)
            if new:
                at = torch.tensor(list(new.values()), device=rewards.device)
                self._learn(list(new), rewards[at], self.discount)
        return len(new)

    def expected_reward(self, decision: Decision) -> Tensor:  # (*N,)
        """Return sum_i p_i mu_hat_i, whose gradient reaches beta (Eq. 13) and the encoder."""
        policy = type(self.policy).__name__
        gamma = check_offered("SoftUCBHead", "expected_reward", decision.gamma, policy)
        beta = check_offered("SoftUCBHead", "expected_reward", decision.beta, policy)
        return F.expected_reward(beta, decision.mu_hat, decision.width, gamma, mask=decision.mask)

    @torch.inference_mode(False)
    @torch.no_grad()
    def calibrate(self, batches: Iterable[tuple[Any, ...]]) -> None:
        """Fit the normalisation to encoder inputs and reset the statistics, which were collected from other features.

        Write a checkpoint afterwards: the log does not record it.
        """
        if not self.features.normalise:
            raise ValueError("SoftUCBHead.calibrate: the head was constructed with normalise=False; use normalise=True")
        policy, buffers = self.policy, self.features._buffers
        with self.guard.lock:
            self.guard.recover()
            check_nothing_open("SoftUCBHead.calibrate", len(self.pending))
            fitted = self.features.fitted(self.encoder(*inputs) for inputs in batches)
            fresh = policy.fresh_rows(tuple(policy.batch_shape))
            before, old = dict(buffers), policy.statistics

            def write() -> None:
                buffers.update(fitted)
                policy.write(None, fresh)

            def undo() -> None:
                buffers.update(before)
                policy.write(None, old)

            self.guard.commit(write, undo)

    @torch.inference_mode(False)
    @torch.no_grad()
    def refit(self, batches: Iterable[Replay]) -> int:
        """Rebuild the statistics from past requests with the current encoder; returns the number of rewards used.

        Takes effect as a whole, or raises and changes nothing. Each batch is one step of forgetting, as a feedback call is.
        Open decisions keep the features with which they were served. ``serve`` and ``feedback`` of other threads wait until
        it is done. Write a checkpoint afterwards: the log does not record it.
        """
        with self.guard.lock:
            self.guard.recover()
            return rebuild_statistics(self.policy, self.encode, batches, discount=self.discount)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state at one moment, also while other threads serve; the arguments are those of ``torch.nn.Module``."""
        with self.guard.lock:
            self.guard.recover()
            return super().state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state as a whole, or raise and change nothing; the arguments are those of ``torch.nn.Module``."""
        return load_whole(self.guard, self, lambda: super(SoftUCBHead, self).load_state_dict(state_dict, strict, assign))

    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        check_head_state("SoftUCBHead", state_dict, prefix, self.policy)
        super()._load_from_state_dict(state_dict, prefix, *args)  # type: ignore[no-untyped-call]
