"""Files of networks: what is refused, and that reading does not touch the random numbers of the caller."""

import json

import pytest
import torch

from torch_softucb import SituationBeta, SummaryBeta
from torch_softucb.checked_files import save_tensors


def test_a_network_of_another_class_is_refused(tmp_path):
    SummaryBeta().save(tmp_path / "network")
    with pytest.raises(
        ValueError, match=r"not a file of SituationBeta\.save: its metadata must have the settings init, inputs"
    ):
        SituationBeta.load(tmp_path / "network", horizon=10)


@pytest.mark.parametrize("wrong", ["missing", "shape", "setting"])
def test_wrong_contents_are_named(wrong, tmp_path):
    tensors, settings = dict(SummaryBeta().state_dict()), {"init": 1.0}
    if wrong == "missing":
        del tensors["linear.bias"]
    elif wrong == "shape":
        tensors["linear.weight"] = torch.zeros(1, 3)
    else:
        settings["init"] = -1.0
    save_tensors(tmp_path / "network", tensors, {"module": json.dumps(settings)})
    with pytest.raises(ValueError, match=f"network file {tmp_path / 'network'}: "):
        SummaryBeta.load(tmp_path / "network")


def test_a_network_without_its_hidden_layer_is_refused(tmp_path):
    module = SituationBeta(horizon=10)
    tensors = {name: value for name, value in module.state_dict().items() if not name.startswith("hidden")}
    settings = {"init": module.init, "inputs": list(module.inputs)}
    save_tensors(tmp_path / "network", tensors, {"module": json.dumps(settings)})
    with pytest.raises(ValueError, match=r"tensor hidden\.weight is missing or has the wrong shape"):
        SituationBeta.load(tmp_path / "network", horizon=10)


def test_loading_draws_no_random_numbers_of_the_caller(tmp_path):
    SummaryBeta().save(tmp_path / "network")
    torch.manual_seed(0)
    want = torch.rand(3)
    torch.manual_seed(0)
    SummaryBeta.load(tmp_path / "network")
    assert torch.rand(3).equal(want)
