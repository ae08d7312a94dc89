"""Write a large synthetic decision log as Parquet files, to try learning from a log that does not fit into memory.

    python scripts/make_big_log.py /tmp/big_log                     # 20 million decisions
    python scripts/make_big_log.py /tmp/big_log --decisions 1000000

Every decision offers K random items of a pool, chosen by a softmax policy with exact propensities. Columns: x, arm,
propensity, reward and candidates (item ids).
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder to create")
    parser.add_argument("--decisions", type=int, default=20_000_000, help="number of rows (default 20 million)")
    parser.add_argument("--files", type=int, default=20, help="number of files (default 20)")
    parser.add_argument("--items", type=int, default=200, help="size of the pool (default 200)")
    parser.add_argument("--candidates", type=int, default=10, help="items per decision (default 10)")
    parser.add_argument("--dim", type=int, default=8, help="number of features (default 8)")
    parser.add_argument("--noise-std", type=float, default=0.5, help="standard deviation of the noise (default 0.5)")
    parser.add_argument("--group", type=int, default=250_000, help="rows per row group (default 250000)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def rows(
    count: int,
    items: NDArray[np.float32],  # (M, d)
    theta: NDArray[np.float64],  # (d,)
    args: argparse.Namespace,
    rng: np.random.Generator,
) -> pa.Table:
    first = rng.integers(len(items), size=(count, 1))
    step = rng.integers(1, len(items) // args.candidates + 1, size=(count, 1))
    candidates = (first + step * np.arange(args.candidates)) % len(items)  # distinct: K steps do not go round the pool
    values = (items @ theta)[candidates]
    weights = np.exp(values)
    probs = weights / weights.sum(-1, keepdims=True)
    arm = (probs.cumsum(-1) < rng.random((count, 1))).sum(-1).clip(max=args.candidates - 1)
    at = np.arange(count)
    reward = values[at, arm] + args.noise_std * rng.standard_normal(count)
    x = items[candidates[at, arm]]
    return pa.table(
        {
            "x": pa.FixedSizeListArray.from_arrays(x.reshape(-1), items.shape[1]),
            "arm": arm.astype(np.int16),
            "propensity": probs[at, arm],
            "reward": reward.astype(np.float32),
            "candidates": pa.FixedSizeListArray.from_arrays(candidates.astype(np.int16).reshape(-1), args.candidates),
        }
    )


def main(argv: list[str] | None = None) -> Path:
    args, begin = parse(argv), time.perf_counter()
    args.folder.mkdir(parents=True)
    rng = np.random.default_rng(args.seed)
    items = (rng.standard_normal((args.items, args.dim)) / args.dim**0.5).astype(np.float32)
    theta = rng.standard_normal(args.dim)
    counts = [len(part) for part in np.array_split(np.empty(args.decisions, np.bool_), args.files)]
    for number, count in enumerate(counts):
        path, writer = args.folder / f"{number:04d}.parquet", None
        for start in range(0, count, args.group):
            table = rows(min(args.group, count - start), items, theta, args, rng)
            writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
            writer.write_table(table)
        if writer is not None:
            writer.close()
    size = sum(file.stat().st_size for file in args.folder.iterdir())
    print(f"Written: {args.folder}, {args.decisions} decisions, {size / 1e9:.2f} GB, {time.perf_counter() - begin:.0f} s")
    return args.folder


if __name__ == "__main__":
    main()
