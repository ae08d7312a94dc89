"""The decision path of a head for torch.export and torch.compile: tensors in, tensors out."""

from typing import Any

from torch import Tensor, nn

from torch_softucb.recommend.head import SoftUCBHead


class DecisionPath(nn.Module):
    """A head's decision as a dict of tensors: ``probs``, ``index``, ``mu_hat`` and ``width``.

    It draws nothing and opens no decision. It shares statistics, beta and encoder with the head. An exported program keeps
    the values from the time of the export until new ones are loaded into its buffers.

    Args:
        head: the head to export; not one with ``narrow_pending`` and open decisions.

    Example:
        >>> from torch_softucb import SoftUCBPolicy
        >>> path = DecisionPath(SoftUCBHead(torch.nn.Embedding(9, 2), SoftUCBPolicy(2)))
        >>> N, K = torch.export.Dim("N", min=1, max=1024), torch.export.Dim("K", min=1, max=1024)
        >>> program = torch.export.export(path, (torch.zeros(3, 5, dtype=torch.long),), dynamic_shapes=(({0: N, 1: K},),))
        >>> program.module()(torch.zeros(8, 2, dtype=torch.long))["probs"].shape
        torch.Size([8, 2])
    """

    def __init__(self, head: SoftUCBHead) -> None:
        super().__init__()
        self.head = head

    def forward(
        self,
        *inputs: Any,
        mask: Tensor | None = None,  # (K,) or (N, K), True = allowed
        bandit: Tensor | None = None,  # (N,)
    ) -> dict[str, Tensor]:  # each (K,) or (N, K)
        """Decide on the candidates; the arguments are those of :class:`SoftUCBHead`."""
        decision = self.head(*inputs, mask=mask, bandit=bandit)
        return {name: getattr(decision, name) for name in ("probs", "index", "mu_hat", "width")}
