"""Every checkpoint format is read, and what it holds is sorted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.data import shared_data
from tests.importers.checkpoint_files import STATE, WRITERS, write_keras
from weightspace.errors import FileError
from weightspace.importers import read_states

FORMATS = {
    "a.pt": "torch",
    "a.pth": "torch-legacy",
    "a.safetensors": "safetensors",
    "a.npz": "npz",
    "b.npz": "npz",
    "a.zip": "sb3",
    "model.safetensors.index.json": "sharded-safetensors",
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_exact_tensors(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    checkpoint = read_states(tmp_path / name)
    assert checkpoint.format == FORMATS[name]
    assert set(checkpoint.tensors) == set(STATE)
    for key, tensor in STATE.items():
        assert torch.equal(checkpoint.tensors[key], tensor)
        assert checkpoint.tensors[key].dtype == tensor.dtype


@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.safetensors", "a.npz", "a.zip"])
def test_the_content_decides_not_the_name(tmp_path: Path, name: str) -> None:
    for disguise in ("b.safetensors", "b.pt", "b.npz", "b"):
        WRITERS[name](tmp_path / name)
        (tmp_path / name).rename(tmp_path / disguise)
        checkpoint = read_states(tmp_path / disguise)
        assert checkpoint.format == FORMATS[name]
        assert torch.equal(checkpoint.tensors["seq.2.bias"], STATE["seq.2.bias"])


def test_keras_variables_come_in_the_order_of_the_layers(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    write_keras(tmp_path / "a.h5")
    checkpoint = read_states(tmp_path / "a.h5")
    assert list(checkpoint.tensors) == ["dense_10/kernel:0", "dense_2/kernel:0"]
    assert torch.equal(checkpoint.tensors["dense_10/kernel:0"], STATE["seq.0.weight"].T)
    assert int(checkpoint.others["optimizer_weights"]["Adam/iter:0"]) == 5
    assert checkpoint.config["model_config"] == {"class_name": "Sequential"}


def test_optimiser_state_and_plain_values_stand_beside(tmp_path: Path) -> None:
    WRITERS["a.pt"](tmp_path / "a.pt")
    checkpoint = read_states(tmp_path / "a.pt")
    assert list(checkpoint.others) == ["optimizer"]
    assert torch.equal(checkpoint.others["optimizer"]["0.exp_avg"], torch.ones(4, 3))
    assert checkpoint.config["epoch"] == 3
    assert checkpoint.config["optimizer.0.step"] == 3
    assert checkpoint.config["optimizer.param_groups"][0]["betas"] == [0.9, 0.99]


def test_a_real_optimiser_is_told_from_a_network(tmp_path: Path) -> None:
    net = nn.Linear(2, 3)
    adam = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    adam.step()
    torch.save({"opt": adam.state_dict(), "my_net": net.state_dict()}, tmp_path / "a.ckpt")
    checkpoint = read_states(tmp_path / "a.ckpt")
    assert set(checkpoint.tensors) == {"weight", "bias"}
    assert set(checkpoint.others["opt"]) == {
        f"{place}.{what}" for place in (0, 1) for what in ("step", "exp_avg", "exp_avg_sq")
    }


def test_several_networks_and_the_main_one(tmp_path: Path) -> None:
    linear = nn.Linear(2, 2).state_dict()
    torch.save({"network_fn_state_dict": linear, "network_fine_state_dict": linear}, tmp_path / "n")
    checkpoint = read_states(tmp_path / "n")
    assert list(checkpoint.others) == ["network_fine_state_dict"]
    torch.save({"model_ema": linear, "best": linear}, tmp_path / "e")
    assert list(read_states(tmp_path / "e").others) == ["model_ema"]
    torch.save({"other": {"weight": torch.zeros(1)}, "model": linear}, tmp_path / "m")
    assert torch.equal(read_states(tmp_path / "m").tensors["weight"], linear["weight"])


def test_trees_of_layers_are_one_network(tmp_path: Path) -> None:
    layer = {"kernel": torch.ones(2, 3), "bias": torch.zeros(3)}
    torch.save({"params": {"Dense_0": layer, "Dense_1": layer}}, tmp_path / "flax")
    names = list(read_states(tmp_path / "flax").tensors)
    assert names == ["Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel", "Dense_1.bias"]


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.module."])
def test_wrappers_prefixes_go_and_are_remembered(tmp_path: Path, prefix: str) -> None:
    torch.save({prefix + name: tensor for name, tensor in STATE.items()}, tmp_path / "a.pt")
    checkpoint = read_states(tmp_path / "a.pt")
    assert set(checkpoint.tensors) == set(STATE)
    assert checkpoint.prefix == prefix
    assert set(checkpoint.original) == {prefix + name for name in STATE}


@pytest.mark.parametrize("prefix", ["model.", "net."])
def test_attributes_names_stay(tmp_path: Path, prefix: str) -> None:
    torch.save({prefix + name: tensor for name, tensor in STATE.items()}, tmp_path / "a.pt")
    assert set(read_states(tmp_path / "a.pt").tensors) == {prefix + name for name in STATE}


def test_a_prefix_of_some_names_stays(tmp_path: Path) -> None:
    state = {"module.0.weight": torch.ones(1), "n_averaged": torch.tensor(3)}
    torch.save(state, tmp_path / "a.pt")
    assert set(read_states(tmp_path / "a.pt").tensors) == set(state)


def test_a_list_of_tensors_and_a_single_one(tmp_path: Path) -> None:
    torch.save([torch.ones(2), torch.zeros(1)], tmp_path / "list")
    assert list(read_states(tmp_path / "list").tensors) == ["0", "1"]
    torch.save(torch.ones(2), tmp_path / "one")
    assert list(read_states(tmp_path / "one").tensors) == ["tensor"]


def test_number_types_survive(tmp_path: Path) -> None:
    types = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    types = (*types, torch.uint16, torch.float8_e4m3fn)
    state = {str(t): torch.ones(3).to(t) for t in types}
    torch.save(state, tmp_path / "a.pt")
    tensors = read_states(tmp_path / "a.pt").tensors
    assert all(tensors[str(t)].dtype == t for t in types)


def test_numpy_layouts_and_byte_orders(tmp_path: Path) -> None:
    values = np.arange(6.0).reshape(2, 3)
    arrays = {
        "big": values.astype(">f4"),
        "fortran": np.asfortranarray(values),
        "scalar": values[0, 1],
    }
    np.savez(tmp_path / "a.npz", **arrays)
    tensors = read_states(tmp_path / "a.npz").tensors
    assert tensors["big"].tolist() == tensors["fortran"].tolist() == values.tolist()
    assert tensors["scalar"].tolist() == 1.0


def test_tensors_of_large_files_are_mapped(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1 << 20)}, tmp_path / "a.pt")
    tensor = read_states(tmp_path / "a.pt").tensors["w"]
    before = (tmp_path / "a.pt").read_bytes()
    tensor += 1.0
    assert (tmp_path / "a.pt").read_bytes() == before
    assert "a.pt" in Path("/proc/self/maps").read_text() or not Path("/proc").exists()


def test_shared_checkpoints_are_read() -> None:
    folder = shared_data("models/torch").parents[1]
    counts = {
        "models/torch/attacut_c_dilated_cnn.pth": 11,
        "models/torch/lenet5_mnist.pth": 10,
        "models/torch/mtcnn_pnet.pt": 13,
        "models/torch/nerf_lego.ckpt": 16,
        "models/torch/resnet20_cifar10.th": 97,
        "models/safetensors/stories260K_llama.safetensors": 47,
        "models/sb3/dqn__CartPole-v1_1.zip": 12,
        "models/sb3/ppo__CartPole-v1_1.zip": 12,
        "models/sb3/sac__Pendulum-v1_1.zip": 31,
        "models/implicit/fox.npz": 27,
        "models/implicit/bunny.npz": 27,
        "models/keras_h5/mlperf_tiny_resnet8_cifar10.h5": 48,
        "zoos/bipedal_walker_mlps.npz": 8,
        "zoos/nerf_7scenes.safetensors": 112,
        "zoos/sb3_actor_critics.safetensors": 625,
    }
    found = {name: len(read_states(folder / name).tensors) for name in counts}
    assert found == counts


def test_shared_files_that_are_no_checkpoints_are_refused() -> None:
    with pytest.raises(FileError, match="content that begins with"):
        read_states(shared_data("models/safetensors/stories260K_tok512.bin"))
    with pytest.raises(FileError, match="ONNX"):
        read_states(shared_data("models/onnx/mnist2x10.onnx"))


def test_shared_checkpoints_details() -> None:
    nerf = read_states(shared_data("models/torch/nerf_lego.ckpt"))
    assert nerf.tensors["layer1.weight"].shape == (128, 63)
    assert len(nerf.others["model_fine_state_dict"]) == 16
    assert len(nerf.others["optimizer_state_dict"]) == 64
    assert nerf.config["iter"] == 199999
    resnet = read_states(shared_data("models/torch/resnet20_cifar10.th"))
    assert resnet.prefix == "module."
    sac = read_states(shared_data("models/sb3/sac__Pendulum-v1_1.zip"))
    assert set(sac.others) == {
        "tensors", "actor.optimizer", "critic.optimizer", "ent_coef_optimizer",
    }  # fmt: skip
    llama = read_states(shared_data("models/safetensors/stories260K_llama.safetensors"))
    assert llama.config["n_heads"] == "8"
    walkers = read_states(shared_data("zoos/bipedal_walker_mlps.npz"))
    assert len(walkers.config["names"]) == 27
    keras = read_states(shared_data("models/keras_h5/mlperf_tiny_resnet8_cifar10.h5"))
    assert keras.tensors["conv2d/kernel:0"].shape == (3, 3, 3, 16)
    assert keras.config["model_config"]["class_name"] == "Functional"


def test_an_index_of_torch_shards(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "shard.bin")
    index = {"weight_map": dict.fromkeys(STATE, "shard.bin")}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    checkpoint = read_states(tmp_path / "pytorch_model.bin.index.json")
    assert checkpoint.format == "sharded-torch"
    assert set(checkpoint.tensors) == set(STATE)
