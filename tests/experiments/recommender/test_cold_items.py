"""Films without ratings: what is known of them, and what the prior says."""

import gzip

import numpy as np
import pytest
import torch

from experiments.recommender.cold_items import Sizes, cold_items, load_facts, predicted
from tests.experiments.recommender.cases import facts, ratings
from torch_softucb.errors import DataError

ENCODINGS = {"u.item": "latin-1", "movies.dat": "latin-1", "movies.csv": "utf-8"}
FILES = {
    "u.item": "7|Heat (1995)|01-Jan-1995||http://|" + "|".join("1" if i in (1, 6) else "0" for i in range(19)) + "\n",
    "movies.dat": "7::Cité (1995)::Action|Crime\n",
    "movies.csv": 'movieId,title,genres\n7,"Heat, The Å (1995)",Action|Crime\n',
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_facts_of_the_three_formats(name, packed, tmp_path):
    text = FILES[name].encode(ENCODINGS[name])
    file = tmp_path / (f"{name}.gz" if packed else name)
    file.write_bytes(gzip.compress(text) if packed else text)
    found = load_facts(tmp_path)
    assert found.id.tolist() == [7]
    assert found.year.tolist() == [1995.0]
    assert found.genres.sum() == 2


def test_a_folder_without_films_is_named(tmp_path):
    with pytest.raises(DataError, match=r"must contain one of u\.item"):
        load_facts(tmp_path)


def test_prediction_is_ridge_regression():
    design, target = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0.0, 1.0, 2.0])
    weight = np.linalg.inv(design.T @ design + 2 * np.eye(2)) @ design.T @ (target - 1)
    np.testing.assert_allclose(predicted(design, target, np.array([[1.0, 5.0]])), 1 + np.array([1.0, 5.0]) @ weight)


@pytest.mark.parametrize("mixed", [False, True])
def test_of_new_films_only_what_the_others_predict_is_known(mixed):
    data = ratings()
    cold = cold_items(data, facts(), np.arange(100, 130), Sizes(mixed=mixed, trajectories=3, candidates=5))
    new = int(0.15 * 30)
    assert cold.world.num_arms == (30 if mixed else new)
    assert cold.world.batch_shape == (3,)
    assert cold.prior.dim == cold.world.dim == 1 + new
    mean = np.bincount(data.item, (data.value - 1) / 4) / np.bincount(data.item)
    torch.testing.assert_close(cold.world.means[0, -new:].double(), torch.from_numpy(mean[-new:]), atol=1e-6, rtol=0)
    known = cold.prior.offset + cold.prior.predict(cold.world.arms.double())
    if mixed:  # old films have their mean, and no effect
        torch.testing.assert_close(known[:-new], torch.from_numpy(mean[:-new]), atol=1e-6, rtol=0)
        assert not cold.world.arms[:-new, 1:].any()
    assert cold.world.arms[-new:, 1:].equal(torch.eye(new))

    others = data._replace(value=np.where(data.item >= 30 - new, 6 - data.value, data.value))  # new films rated differently
    again = cold_items(others, facts(), np.arange(100, 130), Sizes(mixed=mixed, trajectories=3, candidates=5))
    assert again.prior == cold.prior
    assert again.world.arms.equal(cold.world.arms)
    assert not again.world.means.equal(cold.world.means)
