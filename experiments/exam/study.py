"""All policies on all tables: rows of results."""

import time
from collections.abc import Iterator, Sequence

from experiments.exam.play import mistakes, orders
from experiments.exam.settings import AUTO, REPORTED, UNITS, Maker, policies
from experiments.tables import Rows
from torch_softucb.problems.classification import ClassificationData, load_classification


def exam(sets: Sequence[str], horizon: int, *, seeds: tuple[int, ...] = REPORTED) -> Iterator[Rows]:
    """Play every policy on every table with rewards 0 and 1; yields the rows of each table."""
    for name in sets:
        yield play_set(load_classification(name=name), name, policies(), horizon, seeds=seeds)


def play_set(
    data: ClassificationData, name: str, makers: dict[str, Maker], horizon: int, *, seeds: tuple[int, ...] = REPORTED
) -> Rows:
    """Play policies on one table; returns one row per policy and shuffle."""
    order = orders(len(data.label), horizon, seeds)
    rows: Rows = []
    for title, make in makers.items():
        start = time.perf_counter()
        wrong = mistakes(make(data.contexts.shape[1], order.shape[1]), data, order, UNITS[0])
        micros = 1e6 * (time.perf_counter() - start) / order.numel()
        for seed, count in zip(seeds, wrong.tolist(), strict=True):
            row = {"set": name, "rounds": order.shape[1], "policy": title, "shuffle": seed, "mistakes": count}
            rows.append({**row, "microseconds": micros})
    return rows


def units(sets: Sequence[str], horizon: int, *, seeds: tuple[int, ...] = REPORTED) -> Rows:
    """Play auto, pretrained and two fixed betas in every unit of the reward."""
    chosen = {title: make for title, make in policies().items() if title in (AUTO, "pretrained", "LinUCB, beta 1")}
    rows: Rows = []
    for name in sets:
        data = load_classification(name=name)
        order = orders(len(data.label), horizon, seeds)
        for unit in UNITS:
            for title, make in chosen.items():
                wrong = mistakes(make(data.contexts.shape[1], order.shape[1]), data, order, unit)
                rows.append({"set": name, "unit": unit.title, "policy": title, "mistakes": float(wrong.double().mean())})
    return rows
