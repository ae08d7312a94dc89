"""SoftUCB as the exploration head of a recommender: candidates in, a decision with its exact probability out."""

import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_number
from torch_softucb.functional.sampling import _draw_arm
from torch_softucb.policies._checks import check_bandit, check_offered, check_policy, check_slate
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.recommend._checks import (
    check_candidates,
    check_carries_features,
    check_feedback,
    check_head_policy,
    check_known_decision,
    check_named,
    check_nothing_open,
    check_replayed,
    check_replica,
)
from torch_softucb.recommend.features import FeatureMap
from torch_softucb.recommend.pending import Pending
from torch_softucb.rng import normals, stream_key, uniforms

_COUNTER_BITS, _REPLICA_BITS = 34, 28  # a decision id: the replica's number, then a counter that never starts again


class Served(NamedTuple):
    """What was shown, with all that its feedback and its log entry need; ``*N`` is (N,), or (N, k) for slates."""

    id: Tensor  # (*N,) int64, one for every item shown
    arm: Tensor  # (*N,) int64, place in the candidate list
    propensity: Tensor | None  # (*N,) its probability; in a slate, given the items before it; None: no closed form (LinTS)
    x: Tensor  # (*N, d) features
    beta: Tensor | None  # () or (N,)
    bandit: Tensor | None  # (N,)
    mask: Tensor | None  # (K,) or (N, K) of the candidates
    k: int | None  # items of a slate; None: single decisions
    num_arms: int  # K


class Replay(NamedTuple):
    """A batch of the past for :meth:`SoftUCBHead.refit`: what the encoder saw, what was shown, what it earned."""

    inputs: tuple[Any, ...]  # the encoder's arguments
    arm: Tensor  # (N,)
    reward: Tensor  # (N,)
    bandit: Tensor | None = None  # (N,)


class SoftUCBHead(nn.Module):
    """Learned exploration on top of any encoder.

    Args:
        encoder: any module whose output is the candidates' features, (K, d) or (N, K, d); it is called by position.
        policy: :class:`~torch_softucb.SoftUCBPolicy`, or another policy over features. After
            ``policy.reset(batch_shape=(users,))`` every user or segment has statistics of its own, by ``bandit=ids``.
        intercept: add a constant feature; the policy's dim is then the encoder's plus one.
        normalise: normalise features by what :meth:`calibrate` found.
        discount: what a bandit keeps of its statistics at each call of ``feedback`` that names it, for rewards that drift.
        narrow_pending: count decisions whose reward has not come yet in the width (never in the mean), so that a burst of
            requests does not explore the same item again and again.
        seed: of the draws. The draw of a decision depends on the seed and on its id alone.

    Statistics, open decisions, normalisation and the place in the random stream are in ``state_dict``.

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

    stream: Tensor
    replicas: Tensor
    # else DDP writes rank 0's over every other rank's
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
        super().__init__()
        check_policy("SoftUCBHead", policy, BanditPolicy)
        dim = policy.dim - int(intercept)
        check_head_policy("SoftUCBHead", policy, dim)
        self.encoder, self.policy = encoder, policy
        self.features = FeatureMap(dim, intercept=intercept, normalise=normalise).to(policy.device)
        self.discount = check_number("SoftUCBHead", "discount", discount, low=0.0, high=1.0, open_low=True, closed_high=True)
        self.narrow_pending = narrow_pending
        self.pending = Pending(policy.dim, dtype=policy.dtype, device=policy.device)
        # key of the draws, next number of the counter, and the replica numbers so far, the present one last
        self.register_buffer("stream", torch.zeros(2, dtype=torch.int64, device=policy.device))
        self.register_buffer("replicas", torch.zeros(0, dtype=torch.int64, device=policy.device))
        self.reseed(seed, replica=0)

    @torch.inference_mode(False)
    def reseed(self, seed: int | None = None, *, replica: int | None = None) -> None:
        """Another random stream, and ids that start with another replica number; by default both from the system.

        For replicas that were loaded from one checkpoint: else they would explore in step and give the same ids.
        """
        seed = secrets.randbits(63) if seed is None else seed
        replica = secrets.randbits(_REPLICA_BITS) if replica is None else replica
        number = check_replica("SoftUCBHead.reseed", replica, _REPLICA_BITS)
        self.stream[0] = stream_key(torch.Generator().manual_seed(seed), "action", self.stream.device)
        self.replicas = torch.cat((self.replicas[self.replicas != number], self.replicas.new_tensor([number])))

    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved = state_dict.get(prefix + "replicas")
        if saved is not None and saved.dim() == 1:
            self.replicas = self.replicas.new_empty(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def encode(self, *inputs: Any) -> Tensor:  # (K, d) or (N, K, d)
        """The features that the policy sees."""
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
        """Decide on the candidates that the encoder makes of ``inputs``; changes nothing."""
        check_named("SoftUCBHead", bandit, self.policy.batch_shape)
        if bandit is not None:
            check_bandit("SoftUCBHead", bandit, self.policy.batch_shape, device=self.policy.device)
        features = self.encode(*inputs)
        decision: Decision = self.policy(features, mask=mask, bandit=bandit, pending=self._pending(bandit))
        for name, value in (("features", features), ("bandit", bandit)):
            object.__setattr__(decision, name, value)  # made a line ago: nobody else has seen it
        return decision

    def _pending(self, bandit: Tensor | None) -> Tensor | None:
        """Sum of x x^T over open decisions, of each bandit that is asked."""
        if not self.narrow_pending or not len(self.pending):
            return None
        if torch.compiler.is_compiling():
            raise RuntimeError("SoftUCBHead: narrow_pending depends on what is open and cannot be exported or compiled")
        x, owner = self.pending.open_rows()
        x = x.double()
        if bandit is None:
            return x.mT @ x
        unique, group = torch.unique(bandit, return_inverse=True)
        at = torch.searchsorted(unique, owner).clamp(max=len(unique) - 1)
        mine = unique[at] == owner
        sums = x.new_zeros(len(unique), x.shape[-1], x.shape[-1])
        return sums.index_add_(0, at[mine], x[mine].unsqueeze(-1) * x[mine].unsqueeze(-2))[group]

    @torch.inference_mode(False)
    @torch.no_grad()
    def serve(self, decision: Decision, *, k: int | None = None) -> Served:
        """Draw an item for every request, or a slate of ``k``; give each an id and wait for its feedback."""
        features = check_carries_features("SoftUCBHead.serve", decision.features)
        if k is not None:
            check_slate("SoftUCBHead.serve", k, decision.mask, decision.num_arms)
        shape = decision.batch_shape if k is None else (*decision.batch_shape, k)
        ids = self._next_id() + torch.arange(torch.Size(shape).numel(), device=self.stream.device).view(shape)
        arm, propensity = self._drawn(decision, ids if k is None else ids[..., 0], k)
        features = features.expand(*decision.batch_shape, *features.shape[-2:])
        at = arm.unsqueeze(-1) if k is None else arm
        x = features.gather(-2, at.unsqueeze(-1).expand(*at.shape, features.shape[-1]))
        x = x.squeeze(-2) if k is None else x
        bandit = decision.bandit
        owner = None if bandit is None else bandit.view(*bandit.shape, *[1] * (k is not None)).expand(shape).reshape(-1)
        self.pending.add(ids.reshape(-1), x.reshape(-1, x.shape[-1]), owner)
        self.stream[1] += ids.numel()
        beta = None if decision.beta is None else decision.beta.detach().clone()
        return Served(ids, arm, propensity, x, beta, bandit, decision.mask, k, decision.num_arms)

    def _next_id(self) -> Tensor:
        return (self.replicas[-1] << _COUNTER_BITS) + self.stream[1]

    def _drawn(self, decision: Decision, ids: Tensor, k: int | None) -> tuple[Tensor, Tensor | None]:
        """Arms, or slates, by the random numbers of these ids, and their probabilities. Numbers of float64 whatever the
        dtype: a float32 number knows no probability below 6e-8."""
        key, normal = self.stream[0], self.policy.normals_per_decision
        if normal:
            noise = normals(key, ids, start=0, count=normal, dtype=decision.index.dtype).movedim(0, -1)
            return (decision.pick(noise) if k is None else decision.pick_topk(k, noise).arm), None
        if k is None:
            probs = decision.probs
            arm = _draw_arm(probs.double(), uniforms(key, ids, start=0, count=1, dtype=torch.float64)[0])
            return arm, probs.gather(-1, arm.unsqueeze(-1)).squeeze(-1)
        slate = decision.pick_topk(
            k, uniforms(key, ids, start=0, count=decision.num_arms, dtype=torch.float64).movedim(0, -1)
        )
        assert slate.log_prob is not None
        return slate.arm, slate.log_prob.exp()

    @torch.inference_mode(False)
    def feedback(self, id: Tensor, reward: Tensor, *, on_repeat: str = "refuse") -> int:  # (*N,), (*N,)
        """Take in rewards of open decisions, in any order and batching; returns how many were taken in.

        A decision that was answered before is refused (``on_repeat="ignore"``: passed over); one that this head does not
        know is refused always. Refused means the whole batch, and that nothing was changed.
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
            x, bandit = self.pending.find(list(new))
            named = bandit if self.policy.batch_shape else None
            at = torch.tensor(list(new.values()), device=rewards.device)
            self.policy.update(x, rewards[at].to(x.device), bandit=named, discount=self.discount)
            self.pending.close(list(new))
        return len(new)

    def has_given(self, decision: int) -> bool:
        """Is this an id that the head gave, whether open or not?"""
        count = decision & ((1 << _COUNTER_BITS) - 1)
        return decision >= 0 and count < int(self.stream[1]) and decision >> _COUNTER_BITS in self.replicas.tolist()

    def continue_after(self, decision: int) -> None:
        """Go on behind an id that was given elsewhere: by this head before a crash."""
        replica = decision >> _COUNTER_BITS
        self.stream[1] = max(int(self.stream[1]), (decision & ((1 << _COUNTER_BITS) - 1)) + 1)
        self.replicas = torch.cat((self.replicas[self.replicas != replica], self.replicas.new_tensor([replica])))

    @property
    def open_decisions(self) -> Tensor:  # (n,)
        """Ids of the decisions that wait for their reward, the oldest first."""
        return self.pending.ids()

    def drop(self, id: Tensor) -> None:
        """Stop waiting for the feedback of these decisions; those that are not open are passed over."""
        names = id.reshape(-1).tolist() if isinstance(id, Tensor) else list(id)
        self.pending.close([i for i in dict.fromkeys(names) if i in self.pending])

    def expected_reward(self, decision: Decision) -> Tensor:  # (*N,)
        """sum_i p_i mu_hat_i: its gradient reaches beta (Eq. 13) and the encoder."""
        kind = type(self.policy).__name__
        gamma = check_offered("SoftUCBHead", "expected_reward", decision.gamma, kind)
        beta = check_offered("SoftUCBHead", "expected_reward", decision.beta, kind)
        return F.expected_reward(beta, decision.mu_hat, decision.width, gamma, mask=decision.mask)

    @torch.inference_mode(False)
    @torch.no_grad()
    def calibrate(self, batches: Iterable[tuple[Any, ...]]) -> None:
        """Find the normalisation from encoder inputs, then forget the statistics, which knew other features.

        Write a checkpoint afterwards: the log knows nothing of it.
        """
        if not self.features.normalise:
            raise ValueError("SoftUCBHead.calibrate: the head was made with normalise=False; there is nothing to find")
        check_nothing_open("SoftUCBHead.calibrate", len(self.pending))
        self.features.fit(self.encoder(*inputs) for inputs in batches)
        self.policy.reset(batch_shape=tuple(self.policy.batch_shape))

    @torch.inference_mode(False)
    @torch.no_grad()
    def refit(self, batches: Iterable[Replay]) -> int:
        """Rebuild the statistics by the encoder as it is now; returns the number of rewards taken in.

        Takes effect whole, or raises and changes nothing. A batch is one step of forgetting, as a feedback call is. Open
        decisions keep the features that they were served with. Write a checkpoint afterwards: the log knows nothing of it.
        """
        where, kept, count = "SoftUCBHead.refit", self.policy.statistics, 0
        self.policy.reset(batch_shape=tuple(self.policy.batch_shape))
        try:
            for inputs, arm, reward, bandit in batches:
                check_named(where, bandit, self.policy.batch_shape)
                features = self.encode(*inputs)
                check_replayed(where, arm, reward, features.shape)
                x = features[torch.arange(len(arm), device=arm.device), arm]
                self.policy.update(x, reward.to(x.dtype), bandit=bandit, discount=self.discount)
                count += len(arm)
            if not count:
                raise ValueError(f"{where}: at least one batch is needed, got none (an iterator that is used up?)")
        except BaseException:
            self.policy.statistics = kept
            raise
        return count
