"""The command end to end on a small scale, and what it says of bad input."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from weightspace.cli.main import main
from weightspace.zoo import Zoo, ZooWriter

SMALL = [
    "--train-images",
    "60",
    "--test-images",
    "20",
    "--refits",
    "1",
    "--epochs",
    "2",
    "--hidden",
    "8",
    "8",
]


def weightspace(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "weightspace", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def fails(*arguments: object) -> str:
    """Run a command that must end with one message, exit code 2 and no traceback."""
    run = weightspace(*arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert "Traceback" not in run.stderr + run.stdout
    assert "error" in run.stderr
    return run.stderr


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "out"
    run = weightspace("demo", "--out", out, *SMALL)
    assert run.returncode == 0, run.stderr
    return out


@pytest.fixture(scope="module")
def network(demo: Path) -> dict[str, torch.Tensor]:
    return {name: tensor[0] for name, tensor in Zoo.open(demo / "zoo").states([70]).items()}


def test_results(demo: Path) -> None:
    results = json.loads((demo / "results.json").read_text())
    assert list(results["models"]) == ["ng-gnn-probes", "ng-gnn", "flat-mlp"]
    for row in results["models"].values():
        assert 0 <= row["test_accuracy"] <= 1
        assert row["parameters"] > 1000
        assert row["train_seconds"] > 0
        assert row["seed"] == 0
        assert len(row["history"]) == 2
    assert results["fit"]["networks"] == 80
    assert results["fit"]["networks_per_second"] > 0
    assert results["fit"]["psnr_db"] > 10
    page = (demo / "report.html").read_text()
    assert "ng-gnn-probes" in page
    assert "<script src" not in page


def test_demo_again_changes_nothing(demo: Path) -> None:
    before = json.loads((demo / "results.json").read_text())
    started = time.monotonic()
    assert weightspace("demo", "--out", demo, *SMALL).returncode == 0
    after = json.loads((demo / "results.json").read_text())
    assert {k: v for k, v in after.items() if k != "settings"} == {
        k: v for k, v in before.items() if k != "settings"
    }
    assert time.monotonic() - started < 120


def test_demo_with_other_options_is_refused(demo: Path) -> None:
    other = [*SMALL, "--batch-size", "16"]
    assert "batch_size" in fails("demo", "--out", demo, *other)
    assert "recipe" in fails("demo", "--out", demo, *SMALL, "--seed", "5")


@pytest.mark.parametrize("argument", ["models", "--help"])
def test_a_reader_that_has_enough_ends_the_command_quietly(argument: str) -> None:
    command = [sys.executable, "-m", "weightspace", argument]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()
    assert (running.returncode, said) == (1, b"")


LAYOUTS = ["seq.{}.weight", "net.{}.linear.weight", "{}.weight", "module.layers.{}.weight"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_predict_reads_common_layouts(
    demo: Path, network: dict[str, torch.Tensor], layout: str, ending: str, tmp_path: Path
) -> None:
    renamed = {}
    for name, tensor in network.items():
        _, place, what = name.split(".")
        renamed[layout.format(place).replace("weight", what)] = tensor.clone()
    path = tmp_path / f"network.{ending}"
    if ending == "pt":
        torch.save(renamed, path)
    else:
        save_file(renamed, path)
    model = demo / "models" / "ng-gnn"
    main(
        [
            "predict",
            str(model if ending == "pt" else model / "model.safetensors"),
            str(path),
            "--out",
            str(tmp_path / "p.csv"),
            "--json",
            str(tmp_path / "p.json"),
        ]
    )
    with (tmp_path / "p.csv").open() as file:
        (row,) = csv.DictReader(file)
    data = json.loads((tmp_path / "p.json").read_text())
    assert row["class"] == data["predictions"][0]["class"] in data["classes"]
    chances = [float(row[f"p({name})"]) for name in data["classes"]]
    assert sum(chances) == pytest.approx(1, abs=1e-4)
    # the same network gets the same answer, whatever its tensors are called
    save_file(network, tmp_path / "plain.safetensors")
    main(
        [
            "predict",
            str(model),
            str(tmp_path / "plain.safetensors"),
            "--out",
            str(tmp_path / "q.csv"),
            "--json",
            str(tmp_path / "q.json"),
        ]
    )
    plain = json.loads((tmp_path / "q.json").read_text())
    assert plain["predictions"][0]["probabilities"] == data["predictions"][0]["probabilities"]


def test_bad_files_do_not_cost_the_good_ones(
    demo: Path, network: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    model = demo / "models" / "flat-mlp" / "model.safetensors"
    good = tmp_path / "good.safetensors"
    save_file(network, good)
    data = good.read_bytes()
    files = {
        "cut.safetensors": data[: len(data) // 2],
        "empty.pt": b"",
        "text.pth": b"not a checkpoint",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    torch.save({**network, "seq.0.weight": torch.full((8, 2), float("nan"))}, tmp_path / "nan.pt")
    torch.save({"0.weight": torch.ones(5, 2), "1.weight": torch.ones(1, 5)}, tmp_path / "other.pt")
    torch.save({"conv.weight": torch.ones(4, 3, 3, 3)}, tmp_path / "unknown.pt")
    names = [*files, "nan.pt", "other.pt", "unknown.pt", "missing.pt"]
    message = fails(
        "predict", model, *(tmp_path / name for name in names), good, "--out", tmp_path / "p.csv"
    )
    for name in names:
        assert name in message, name
    assert "NaN" in message
    with (tmp_path / "p.csv").open() as file:
        assert [row["file"] for row in csv.DictReader(file)] == [str(good)]


def test_models_and_zoos_in_the_wrong_place(demo: Path, tmp_path: Path) -> None:
    assert "metanetwork" in fails("predict", tmp_path / "none.safetensors", tmp_path / "x.pt")
    assert "zoo" in fails("train", tmp_path)
    assert "zoo" in fails("zoo", "info", demo / "models")
    assert "ng-gnn" in fails("train", demo / "zoo", "--model", "gnn", "--out", tmp_path / "t")
    message = fails("train", demo / "zoo", "--target", "colour", "--out", tmp_path / "t")
    assert "label" in message


def test_options_out_of_range_claim_no_folder(demo: Path, tmp_path: Path) -> None:
    zoo, out = demo / "zoo", tmp_path / "t"
    for option, value in (
        ("--learning-rate", "-1"),
        ("--learning-rate", "nan"),
        ("--batch-size", "0"),
        ("--epochs", "0"),
        ("--weight-decay", "-1"),
        ("--seed", "-5"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["train", str(zoo), "--out", str(out), f"{option}={value}"])
        assert stopped.value.code == 2, option
        assert not out.exists()
    for option, value in (("--steps", "0"), ("--refits", "0"), ("--learning-rate", "inf")):
        with pytest.raises(SystemExit) as stopped:
            main(["zoo", "fit-inrs", "--out", str(out), f"{option}={value}"])
        assert stopped.value.code == 2, option


def test_another_zoo_is_another_training(demo: Path, tmp_path: Path) -> None:
    for name, shift in (("a", 0), ("b", 3)):
        zoo = Zoo.open(demo / "zoo")
        rows = [{"label": (label + shift) % 10} for label in zoo.column("label").tolist()]
        writer = ZooWriter(tmp_path / name, specs=[zoo.spec], recipe={})
        writer.write_part(0, zoo.states(range(len(zoo))), rows)
        writer.finish(splits={split: zoo.split(split).tolist() for split in zoo.splits})
    train = ["train", "--model", "flat-mlp", "--epochs", "1", "--out", str(tmp_path / "t")]
    main([*train, str(tmp_path / "a")])
    with pytest.raises(SystemExit) as stopped:
        main([*train, str(tmp_path / "b")])
    assert stopped.value.code == 2


def test_huge_weights_are_a_failure_not_a_class(
    demo: Path, network: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    save_file({name: tensor * 1e30 for name, tensor in network.items()}, tmp_path / "h.safetensors")
    model = demo / "models" / "flat-mlp" / "model.safetensors"
    message = fails("predict", model, tmp_path / "h.safetensors", "--out", tmp_path / "p.csv")
    assert "h.safetensors" in message


def test_train_and_render(demo: Path, network: dict[str, torch.Tensor], tmp_path: Path) -> None:
    from PIL import Image

    main(
        [
            "train",
            str(demo / "zoo"),
            "--model",
            "flat-mlp",
            "--epochs",
            "1",
            "--augment",
            "--out",
            str(tmp_path / "t"),
            "--json",
            str(tmp_path / "t.json"),
        ]
    )
    assert "test_accuracy" in json.loads((tmp_path / "t.json").read_text())
    main(
        [
            "render",
            str(demo / "zoo"),
            "--networks",
            "0",
            "70",
            "--height",
            "40",
            "--width",
            "24",
            "--out",
            str(tmp_path / "r"),
            "--json",
            str(tmp_path / "r.json"),
        ]
    )
    paths = json.loads((tmp_path / "r.json").read_text())["images"]
    with Image.open(paths[1]) as image:
        assert image.size == (24, 40)
        from_zoo = np.asarray(image)
    save_file(network, tmp_path / "n.safetensors")
    main(
        [
            "render",
            str(tmp_path / "n.safetensors"),
            "--height",
            "40",
            "--width",
            "24",
            "--out",
            str(tmp_path / "f"),
        ]
    )
    with Image.open(tmp_path / "f" / "n.png") as image:
        assert np.array_equal(np.asarray(image), from_zoo)


def test_zoo_commands(demo: Path, tmp_path: Path) -> None:
    main(["zoo", "info", str(demo / "zoo"), "--json", str(tmp_path / "i.json")])
    assert json.loads((tmp_path / "i.json").read_text())["networks"] == 80
    main(["zoo", "verify", str(demo / "zoo")])
    main(
        [
            "zoo",
            "fit-inrs",
            "--out",
            str(tmp_path / "z"),
            "--hidden",
            "4",
            "4",
            "--steps",
            "3",
            "--train-images",
            "10",
            "--test-images",
            "0",
            "--validation",
            "0",
        ]
    )
    shard = next((tmp_path / "z").glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)
    run = weightspace("zoo", "verify", tmp_path / "z", "--json", tmp_path / "v.json")
    assert run.returncode == 2
    assert shard.name in run.stdout
    assert shard.name in json.dumps(json.loads((tmp_path / "v.json").read_text()))


def test_images_that_cannot_be_used(tmp_path: Path) -> None:
    np.savez(tmp_path / "half.npz", x_train=np.zeros((4, 5, 5), dtype=np.uint8))
    assert "y_train" in fails(
        "zoo", "fit-inrs", "--images", tmp_path / "half.npz", "--out", tmp_path / "z"
    )
    assert "missing.npz" in fails(
        "demo", "--images", tmp_path / "missing.npz", "--out", tmp_path / "d"
    )


@pytest.mark.parametrize("moment", [5.0, 9.0])
def test_ctrl_c_keeps_what_was_done(moment: float, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "weightspace",
        "demo",
        "--out",
        str(tmp_path / "d"),
        "--train-images",
        "600",
        "--test-images",
        "60",
        "--refits",
        "4",
        "--epochs",
        "40",
        "--hidden",
        "8",
        "8",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test runner in the background passes on that SIGINT is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Traceback" not in errors
    assert "interrupted" in errors


def test_help_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["demo"],
        ["zoo", "fit-inrs"],
        ["zoo", "info"],
        ["zoo", "verify"],
        ["train"],
        ["predict"],
        ["render"],
    ):
        with pytest.raises(SystemExit) as stopped:
            main([*command, "--help"])
        assert stopped.value.code == 0
        assert "usage" in capsys.readouterr().out


def test_every_model_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weightspace.models import MODELS

    main(["models", "--json", str(tmp_path / "models.json")])
    listed = json.loads((tmp_path / "models.json").read_text())
    assert [row["name"] for row in listed] == list(MODELS)
    assert "scale-gmn" in capsys.readouterr().out


def test_options_of_models(demo: Path, tmp_path: Path) -> None:
    from weightspace.models import load_model

    train = ["train", str(demo / "zoo"), "--model", "dws", "--epochs", "1"]
    chosen = ["--option", "width=4", "layers=2", "aggregate=sum"]
    main([*train, "--out", str(tmp_path / "t"), *chosen])
    options = load_model(tmp_path / "t" / "model.safetensors").model.trunk.options
    assert (options["width"], options["layers"], options["aggregate"]) == (4, 2, "sum")
    for wrong in ("width", "=4", "depth=3"):
        fails(*train, "--out", tmp_path / "u", "--option", wrong)
