"""SoftUCB as the exploration head of a recommender."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_number
from torch_softucb.policies._checks import check_bandit, check_offered, check_policy, check_slate
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.recommend._checks import (
    check_bandit_given,
    check_candidates,
    check_carries_features,
    check_feedback,
    check_head_policy,
    check_known_decision,
    check_nothing_open,
)
from torch_softucb.recommend.features import FeatureMap
from torch_softucb.recommend.ids import DecisionIds
from torch_softucb.recommend.pending import Pending
from torch_softucb.recommend.refit import Replay, rebuild_statistics
from torch_softucb.recommend.serving import Served, draw_items, shown_features


class SoftUCBHead(DecisionIds):
    """Exploration head on top of any encoder: candidates in, a decision with its exact probabilities out.

    Statistics, open decisions, normalisation and the position in the random stream are part of ``state_dict``.

    Args:
        encoder: module that returns the features of the candidates, (K, d) or (N, K, d); called with positional arguments.
        policy: :class:`~torch_softucb.SoftUCBPolicy`, or another policy over features. After
            ``policy.reset(batch_shape=(users,))`` each user or segment has separate statistics, selected by ``bandit=ids``.
        intercept: append a constant feature; the policy's dim is then the encoder's plus one.
        normalise: normalise the features by the mean and deviation that :meth:`calibrate` finds.
        discount: share of a bandit's statistics that is kept at each call of :meth:`feedback` that contains the bandit.
            Use a value below 1 if rewards drift.
        narrow_pending: let decisions that wait for their reward narrow the width (never the mean), so that a burst of
            requests does not explore the same item over and over.
        seed: seed of the draws. The draw of a decision depends on the seed and on the decision's id only.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> items = torch.nn.Embedding(100, 4)
        >>> head = SoftUCBHead(items, SoftUCBPolicy(dim=4))
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
        policy: BanditPolicy,
        *,
        intercept: bool = False,
        normalise: bool = False,
        discount: float = 1.0,
        narrow_pending: bool = False,
        seed: int = 0,
    ) -> None:
        check_policy("SoftUCBHead", policy, BanditPolicy)
        dim = policy.dim - int(intercept)
        check_head_policy("SoftUCBHead", policy, dim)
        super().__init__(seed, device=policy.device)
        self.encoder, self.policy = encoder, policy
        self.features = FeatureMap(dim, intercept=intercept, normalise=normalise).to(policy.device)
        self.discount = check_number("SoftUCBHead", "discount", discount, low=0.0, high=1.0, open_low=True, closed_high=True)
        self.narrow_pending = narrow_pending
        self.pending = Pending(policy.dim, dtype=policy.dtype, device=policy.device)

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
        return self.pending.gram(bandit)

    @torch.inference_mode(False)
    @torch.no_grad()
    def serve(self, decision: Decision, *, k: int | None = None) -> Served:
        """Draw an item, or a slate of ``k`` items, per request; each gets an id and stays open until its feedback."""
        features = check_carries_features("SoftUCBHead.serve", decision.features)
        if k is not None:
            check_slate("SoftUCBHead.serve", k, decision.mask, decision.num_arms)
        shape = decision.batch_shape if k is None else (*decision.batch_shape, k)
        ids = self._next_ids(shape)
        request_ids = ids if k is None else ids[..., 0]
        num_normals = self.policy.normals_per_decision
        arm, propensity = draw_items(decision, self.stream[0], request_ids, k=k, num_normals=num_normals)
        x = shown_features(features, arm, decision.batch_shape)
        bandit = decision.bandit
        owner = None if bandit is None else bandit.view(*bandit.shape, *[1] * (k is not None)).expand(shape).reshape(-1)
        self.pending.add(ids.reshape(-1), x.reshape(-1, x.shape[-1]), owner)
        self._advance(ids.numel())
        beta = None if decision.beta is None else decision.beta.detach().clone()
        return Served(ids, arm, propensity, x, beta, bandit, decision.mask, k, decision.num_arms)

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
        new: dict[int, int] = {}  # decision -> position
        for position, decision in enumerate(ids.tolist()):
            if decision in self.pending and decision not in new:
                new[decision] = position
            elif not (answered := decision in new or self.has_given(decision)) or on_repeat == "refuse":
                check_known_decision(where, decision, position, answered)
        if new:
            x, owner = self.pending.find(list(new))
            at = torch.tensor(list(new.values()), device=rewards.device)
            bandit = owner if self.policy.batch_shape else None
            self.policy.update(x, rewards[at].to(x.device), bandit=bandit, discount=self.discount)
            self.pending.close(list(new))
        return len(new)

    @property
    def open_decisions(self) -> Tensor:  # (n,)
        """Ids of the decisions that wait for their reward, the oldest first."""
        return self.pending.ids()

    def is_open(self, id: Tensor) -> Tensor:  # (n,) -> (n,) bool
        """Return which of these decisions wait for their reward."""
        return torch.tensor([decision in self.pending for decision in id.tolist()], dtype=torch.bool)

    def drop(self, id: Tensor) -> None:
        """Stop waiting for the feedback of these decisions; ids that are not open are ignored."""
        ids = id.reshape(-1).tolist() if isinstance(id, Tensor) else list(id)
        self.pending.close([i for i in dict.fromkeys(ids) if i in self.pending])

    def restore_open(
        self,
        id: Tensor,  # (n,)
        x: Tensor,  # (n, d)
        bandit: Tensor,  # (n,)
    ) -> Tensor:  # (n,) bool
        """Reopen decisions that were served before a restart, and continue the ids after them.

        Returns which of them were opened; ids that this head has issued itself are left alone.
        """
        new = torch.tensor([not self.has_given(decision) for decision in id.tolist()], dtype=torch.bool)
        if bool(new.any()):
            self.pending.add(id[new], x[new], bandit[new] if self.policy.batch_shape else None)
            self.continue_after(int(id[new][-1]))
        return new

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
        check_nothing_open("SoftUCBHead.calibrate", len(self.pending))
        self.features.fit(self.encoder(*inputs) for inputs in batches)
        self.policy.reset(batch_shape=tuple(self.policy.batch_shape))

    @torch.inference_mode(False)
    @torch.no_grad()
    def refit(self, batches: Iterable[Replay]) -> int:
        """Rebuild the statistics from past requests with the current encoder; returns the number of rewards used.

        Takes effect as a whole, or raises and changes nothing. Each batch is one step of forgetting, as a feedback call is.
        Open decisions keep the features with which they were served. Write a checkpoint afterwards: the log does not
        record it.
        """
        return rebuild_statistics(self.policy, self.encode, batches, discount=self.discount)
