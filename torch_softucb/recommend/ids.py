"""Decision ids, unique across restarts and replicas, and the random stream that they key."""

import secrets

import torch
from torch import Tensor, nn

from torch_softucb.checks import check_integer
from torch_softucb.rng import stream_key

_COUNTER_BITS, _REPLICA_BITS = 34, 28  # 62 bits in all: an id stays a positive int64


def _join(replica: Tensor, counter: Tensor) -> Tensor:
    return (replica << _COUNTER_BITS) + counter


def _split(decision: int) -> tuple[int, int]:
    """Return (replica, counter) of an id."""
    return decision >> _COUNTER_BITS, decision & ((1 << _COUNTER_BITS) - 1)


class DecisionIds(nn.Module):
    """Base class of modules that number their decisions.

    An id is the number of the replica followed by a counter. The counter never restarts, not even under another replica
    number, so an id below the counter with one of the replica numbers used so far has been issued. The id also keys the
    random draw of its decision. Both buffers are part of ``state_dict``.

    Args:
        seed: seed of the random draws.
        device: where the ids are created.

    Attributes:
        stream: int64 (2,), the key of the random draws and the next value of the counter.
        replicas: int64 (r,), all replica numbers used so far, the current one last.

    Example:
        >>> ids = DecisionIds(0, device=torch.device("cpu"))
        >>> ids.continue_after(41)
        >>> ids.has_given(41), ids.has_given(42)
        (True, False)
    """

    stream: Tensor
    replicas: Tensor

    def __init__(self, seed: int, *, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("stream", torch.zeros(2, dtype=torch.int64, device=device))
        self.register_buffer("replicas", torch.zeros(0, dtype=torch.int64, device=device))
        self.reseed(seed, replica=0)

    @torch.inference_mode(False)
    def reseed(self, seed: int | None = None, *, replica: int | None = None) -> None:
        """Start another random stream and use another replica number for the ids that follow.

        Call it in each replica that was loaded from the same checkpoint. Otherwise the replicas draw the same numbers and
        issue the same ids.

        Args:
            seed: seed of the draws; by default from the operating system.
            replica: number in [0, 2**28); by default from the operating system.
        """
        seed = secrets.randbits(63) if seed is None else seed
        replica = secrets.randbits(_REPLICA_BITS) if replica is None else replica
        check_integer("SoftUCBHead.reseed", "replica", replica, low=0)
        if replica >= 1 << _REPLICA_BITS:
            raise ValueError(f"SoftUCBHead.reseed: replica must be below 2**{_REPLICA_BITS}, got {replica}")
        self.stream[0] = stream_key(torch.Generator().manual_seed(seed), "action", self.stream.device)
        self._use_replica(replica)

    def has_given(self, decision: int) -> bool:
        """Return whether this id was issued before, whether or not its decision is still open."""
        replica, counter = _split(decision)
        return decision >= 0 and counter < int(self.stream[1]) and replica in self.replicas.tolist()

    def continue_after(self, decision: int) -> None:
        """Issue only ids that follow this one, which the same module issued before it was restarted."""
        replica, counter = _split(decision)
        self.stream[1] = max(int(self.stream[1]), counter + 1)
        self._use_replica(replica)

    def _next_ids(self, shape: tuple[int, ...]) -> Tensor:
        """Return the next ids; they count as issued once :meth:`_advance` is called."""
        first = _join(self.replicas[-1], self.stream[1])
        return first + torch.arange(torch.Size(shape).numel(), device=self.stream.device).view(shape)

    def _advance(self, count: int) -> None:
        self.stream[1] += count

    def _use_replica(self, replica: int) -> None:
        self.replicas = torch.cat((self.replicas[self.replicas != replica], self.replicas.new_tensor([replica])))

    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved = state_dict.get(prefix + "replicas")
        if saved is not None and saved.dim() == 1:
            self.replicas = self.replicas.new_empty(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)
