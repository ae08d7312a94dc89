"""Damage a file bit by bit and by truncation, load it each time, and count what happens."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_softucb.errors import SoftUCBError

OUTCOMES = ("refused", "harmless", "wrong", "badly_refused")


def flips(
    path: Path,
    load: Callable[[Path], Any],
    same: Callable[[Any, Any], bool],
    *,
    flips: int,
    truncations: int,
    seed: int,
) -> dict[str, int]:
    """Count the outcomes of loading a damaged file.

    Args:
        path: file to damage, in place; it is as before when the function returns.
        load: function that loads the file through the package.
        same: function that compares what an undamaged and a damaged file hold.
        flips: number of files with one flipped bit.
        truncations: number of files that are cut short.
        seed: seed of the places.

    Returns:
        Number of files by outcome: ``refused`` (by an error of the package that names the file), ``harmless`` (loaded with
        the same contents), ``wrong`` (loaded with other contents), ``badly_refused`` (by any other exception).
    """
    whole, numbers = path.read_bytes(), random.Random(seed)
    intact, counts = load(path), dict.fromkeys(OUTCOMES, 0)
    try:
        for _ in range(flips):
            position = numbers.randrange(8 * len(whole))
            damaged = bytearray(whole)
            damaged[position // 8] ^= 1 << position % 8
            path.write_bytes(damaged)
            counts[outcome(path, lambda: same(intact, load(path)))] += 1
        for _ in range(truncations):
            path.write_bytes(whole[: numbers.randrange(len(whole))])
            counts[outcome(path, lambda: same(intact, load(path)))] += 1
    finally:
        path.write_bytes(whole)
    return counts


def outcome(path: Path, same: Callable[[], bool]) -> str:
    """Load a damaged file, compare it, and return the outcome."""
    try:
        return "harmless" if same() else "wrong"
    except (ValueError, SoftUCBError) as error:
        named = path.name in str(error) and type(error).__module__.split(".")[0] in ("builtins", "torch_softucb")
        return "refused" if named and type(error) is not UnicodeDecodeError else "badly_refused"
    except Exception:
        return "badly_refused"
