"""Decisions that are open: numbered when they are served, closed when their reward arrives."""

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.recommend._checks import check_different, check_room
from torch_softucb.recommend.ids import DecisionIds, has_issued
from torch_softucb.recommend.pending import Pending


class OpenDecisions(DecisionIds):
    """Base class of heads: the policy, its open decisions and their ids, which change together.

    The arguments are those of :class:`~torch_softucb.SoftUCBHead`.
    """

    def __init__(self, policy: BanditPolicy, *, max_open: int, seed: int | None, replica: int | None) -> None:
        super().__init__(seed, replica=replica, guard=policy.guard, device=policy.device)
        self.policy = policy
        self.max_open = check_integer("SoftUCBHead", "max_open", max_open, low=1)
        self.pending = Pending(policy.dim, dtype=policy.dtype, device=policy.device)

    @property
    def open_decisions(self) -> Tensor:  # (n,)
        """Ids of the decisions that wait for their reward, the oldest first."""
        with self.guard.lock:
            self.guard.recover()
            return self.pending.ids()

    def is_open(self, id: Tensor) -> Tensor:  # (n,) -> (n,) bool
        """Return which of these decisions wait for their reward."""
        with self.guard.lock:
            self.guard.recover()
            return torch.tensor([decision in self.pending for decision in id.tolist()], dtype=torch.bool)

    def drop(self, id: Tensor) -> None:
        """Stop waiting for the feedback of these decisions; ids that are not open are ignored."""
        ids = id.reshape(-1).tolist() if isinstance(id, Tensor) else list(id)
        with self.guard.lock:
            self.guard.recover()
            self.guard.commit(*self.pending.closing([i for i in dict.fromkeys(ids) if i in self.pending]))

    def restore_open(
        self,
        id: Tensor,  # (n,)
        x: Tensor,  # (n, d)
        bandit: Tensor,  # (n,)
        *,
        issued: dict[int, int] | None = None,
    ) -> Tensor:  # (n,) bool
        """Reopen decisions that were served before a restart, and continue the ids after them.

        Args:
            id: ids of the decisions.
            x: features of the items that were shown.
            bandit: bandits of the decisions; ignored if there is only one.
            issued: which ids count as known, from :func:`~torch_softucb.recommend.ids.issued_ends`; by default those that
                this head has issued.

        Returns:
            Which of them were opened; known ids are left alone.
        """
        with self.guard.lock:
            self.guard.recover()
            known = self._issued() if issued is None else issued
            new = torch.tensor([not has_issued(known, decision) for decision in id.tolist()], dtype=torch.bool)
            if bool(new.any()):
                check_room("SoftUCBHead.restore_open", len(self.pending), int(new.sum()), self.max_open)
                check_different("SoftUCBHead.restore_open", id[new])
                owner = bandit[new] if self.policy.batch_shape else None
                self._open(id[new], x[new], owner, self._continued(id[new].tolist()))
        return new

    def _open(self, ids: Tensor, x: Tensor, owner: Tensor | None, after: dict[str, Tensor]) -> None:
        """Open decisions and replace the buffers of the ids, as one change."""
        add, remove = self.pending.opening(ids, x, owner)
        before = {name: self._buffers[name] for name in after}

        def write() -> None:
            add()
            self._buffers.update(after)

        def undo() -> None:
            remove()
            self._buffers.update(before)

        self.guard.commit(write, undo)

    def _learn(self, ids: list[int], rewards: Tensor, discount: float) -> None:  # (n,)
        """Update the statistics and close the decisions, as one change."""
        policy = self.policy
        x, owner = self.pending.find(ids)
        bandit = owner if policy.batch_shape else None
        rows, old, new = policy.updated(policy.statistics, x, rewards.to(x.device), bandit=bandit, discount=discount)
        close, reopen = self.pending.closing(ids)

        def write() -> None:
            policy.write(rows, new)
            close()

        def undo() -> None:
            reopen()
            policy.write(rows, old)

        self.guard.commit(write, undo)
