"""``weightspace view`` and ``weightspace diff``: opened and clicked in a real browser."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.align.networks import mlp, trained
from tests.data import shared_data
from tests.report.browser import opened
from weightspace.cli.main import main
from weightspace.graph import SymmetryGroup
from weightspace.importers import module_spec

NAME = "tests.align.networks:mlp"
EVIL = '"><img src=x onerror=document.title=666><script>document.title=666</script>'


def planted(seed: int = 0) -> nn.Module:
    """An MLP with a duplicate (2 and 5), a dead neuron (7) and one that is never active (9)."""
    torch.manual_seed(seed)
    net = mlp().eval()
    with torch.no_grad():
        net[1].weight[5], net[1].bias[5] = net[1].weight[2], net[1].bias[2]
        net[3].weight[:, 7] = 0
        net[1].bias[9] = -50
    return net


def saved(path: Path, net: nn.Module) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in net.state_dict().items()}, path)
    return path


def viewed(folder: Path, *arguments: object) -> tuple[Path, dict[str, Any]]:
    out, told = folder / "view.html", folder / "view.json"
    main(["view", *map(str, arguments), "--out", str(out), "--json", str(told)])
    found: dict[str, Any] = json.loads(told.read_text())
    return out, found


def compared(folder: Path, *arguments: object) -> tuple[Path, dict[str, Any]]:
    out, told = folder / "diff.html", folder / "diff.json"
    main(["diff", *map(str, arguments), "--out", str(out), "--json", str(told)])
    found: dict[str, Any] = json.loads(told.read_text())
    return out, found


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(map(str, arguments)))
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    return " ".join(told.split())


def test_a_network_is_opened_and_clicked(tmp_path: Path) -> None:
    net = planted()
    path = saved(tmp_path / "net.safetensors", net)
    out, told = viewed(tmp_path, path, "--module", NAME, "--inputs", "16,1,8,8")
    assert (told["dead"], told["silent"], told["duplicate"]) == (1, 1, 2)
    weight = net[1].weight.detach()
    with opened(out) as page:
        assert page.locator("h1").inner_text() == "net.safetensors"
        page.locator(".row.layer", has_text="24 neurons").click()
        shown = page.locator(".block dd[data-key=norm]").first.get_attribute("data-value")
        assert float(shown) == pytest.approx(float(weight.double().norm()), rel=1e-12)
        canvas = page.locator("canvas.map")
        box = canvas.bounding_box()
        place = {"x": box["width"] * 10.5 / 64, "y": box["height"] * 3.5 / 24}
        canvas.hover(position=place)
        told_value = page.locator(".block .readout").inner_text()
        assert told_value.startswith("to 3, from 10: ")
        assert float(told_value.split()[-1]) == pytest.approx(float(weight[3, 10]), rel=1e-4)
        canvas.click(position=place)
        assert page.locator(".neuron h3").inner_text() == "Neuron 3"
        norm = page.locator(".neuron dd[data-feature=incoming]").get_attribute("data-value")
        assert float(norm) == pytest.approx(float(weight[3].norm()), rel=1e-6)
        page.locator("#findings [data-mark=duplicate] button").click()
        assert page.locator(".neuron h3").inner_text() == "Neuron 2"
        assert "with 5" in page.locator(".neuron").inner_text()
        page.keyboard.press("]")
        assert page.locator(".neuron h3").inner_text() == "Neuron 3"


def test_search_and_keys_find_layers(tmp_path: Path) -> None:
    out, _ = viewed(tmp_path, "tests.align.networks:transformer", "--inputs", "4,8,8")
    with opened(out, theme="dark") as page:
        page.keyboard.press("/")
        page.keyboard.type("layers.1 LINEAR1 weight")
        assert page.locator("#found button").all_inner_texts() == ["1.layers.1.linear1.weight"]
        page.keyboard.press("Enter")
        assert page.locator("#detail h2").inner_text() == "1.layers.1.linear1"
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowDown")
        assert page.locator("#detail h2").inner_text() == "1.layers.1.linear2"
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        tied = page.locator("#axes tr", has_text="S_16").first
        assert "1.layers.0.norm1" in tied.inner_text()


def test_text_from_files_is_never_markup(tmp_path: Path) -> None:
    tensors = {
        f"{EVIL}.0.weight": torch.randn(5, 3),
        f"{EVIL}.0.bias": torch.randn(5),
        f"{EVIL}.2.weight": torch.randn(2, 5),
        f"{EVIL}.2.bias": torch.randn(2),
    }
    path = tmp_path / f"{EVIL.replace('/', '')}.safetensors"
    save_file(tensors, path)
    out, _ = viewed(tmp_path, path)
    text = out.read_text()
    assert EVIL not in text
    with opened(out) as page:
        assert "onerror" in page.locator("h1").inner_text()
        page.locator(".row").first.click()
        while page.locator(".row[aria-expanded=false]").count():
            page.locator(".row[aria-expanded=false]").first.click()
        page.locator(".row.layer").last.click()
        assert EVIL in page.locator("#detail").inner_text()
        assert page.evaluate("document.title").startswith('"><img')
        assert page.locator("img").count() == 0
    # A script that came in would run but for the policy, and this test would see what it does.
    bad = text.replace("</body>", "<script>document.title=666</script></body>")
    assert _title(tmp_path, bad) != "666"
    assert _title(tmp_path, bad.replace("Content-Security-Policy", "off")) == "666"


def _title(folder: Path, text: str) -> str:
    path = folder / "changed.html"
    path.write_text(text)
    with opened(path, clean=False) as page:
        found: str = page.evaluate("document.title")
    return found


class Wide(nn.Module):
    """As many layers as a ResNet-50 has, and blocks that must be pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 512)
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Linear(512, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, 512))
            for _ in range(24)
        )
        self.head = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = x + stage(x)
        return self.head(x)


@pytest.mark.slow
def test_a_large_network_is_a_small_page_that_answers_at_once(tmp_path: Path) -> None:
    out, told = viewed(tmp_path, f"{__name__}:Wide", "--inputs", "2,8")
    assert told["parameters"] > 3e6
    assert out.stat().st_size < 6e6
    with opened(out, size="phone") as page:
        assert page.locator(".row").count() < 60
        spent = page.evaluate(
            """() => { const begin = performance.now(); goTo(LAYERS[60]); drawLines();
                       return performance.now() - begin; }"""
        )
        assert spent < 2000
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        page.locator(".close").click()
        page.locator(".row.module").first.click()


def test_a_chain_runs_when_its_activation_is_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.safetensors", nn.Sequential(*planted()[1:]))
    _, told = viewed(tmp_path, path)
    assert (told["dead"], told["silent"], told["duplicate"]) == (1, 0, 2)
    assert "activation" in told["notes"][0]
    _, told = viewed(tmp_path, path, "--activation", "relu")
    assert (told["dead"], told["duplicate"]) == (1, 2)
    assert "256 random inputs" in told["notes"][0]


def test_an_onnx_file_is_run_as_often_as_it_takes(tmp_path: Path) -> None:
    path = shared_data("models/onnx/cnn_max_mninst2.onnx")
    _, told = viewed(tmp_path, path)
    assert "64 random inputs" in told["notes"][0]


def test_odd_numbers_and_types_are_shown(tmp_path: Path) -> None:
    net = nn.Sequential(*planted()[1:]).to(torch.bfloat16)
    net[0].weight.data[0, 0] = torch.nan
    path = saved(tmp_path / "net.safetensors", net)
    out, told = viewed(tmp_path, path, "--activation", "relu")
    assert np.isnan(told["blocks"]["0.weight"]["norm"])
    with opened(out) as page:
        page.locator(".row.layer", has_text="24 neurons").click()
        assert "nan" in page.locator(".block .statistics").first.inner_text()


def test_a_network_is_shown_on_data(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.safetensors", planted())
    _, told = viewed(tmp_path, path, "--module", NAME, "--inputs", "2,1,8,8", "--data", "digits")
    assert "test images of digits" in told["notes"][0]
    assert "cross-entropy" in told["notes"][1]


def test_bad_input_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "net.safetensors", nn.Linear(3, 2))
    assert "--inputs" in fails(capsys, "view", path, "--module", NAME)
    told = fails(capsys, "view", path, "--module", NAME, "--inputs", "2,1,8,8")
    assert "the tensors of Sequential" in told
    assert "nothing.pt" in fails(capsys, "view", tmp_path / "nothing.pt")
    (tmp_path / "text.pt").write_text("hello")
    assert "text.pt" in fails(capsys, "view", tmp_path / "text.pt")
    other = saved(tmp_path / "other.safetensors", nn.Conv2d(1, 1, 3))
    assert "in common" in fails(capsys, "diff", path, other)
    net = saved(tmp_path / "mlp.safetensors", planted())
    data = ["--module", NAME, "--inputs", "2,1,5,5", "--data", "digits"]
    assert "error" in fails(capsys, "view", net, *data)


def test_a_permuted_copy_differs_in_nothing_but_order(tmp_path: Path) -> None:
    module, inputs = trained("mlp", 0)
    spec, state = module_spec(module, inputs), dict(module.state_dict())
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1))
    a = saved(tmp_path / "a.safetensors", module)
    save_file(element.act_state(state), tmp_path / "b.safetensors")
    shapes = ("--module", NAME, "--inputs", "16,1,8,8")
    out, told = compared(tmp_path, a, tmp_path / "b.safetensors", *shapes)
    assert told["relative_change"] == 0
    there = torch.arange(24)
    assert told["moved"]["1"] == int((element.permutations["1"] != there).sum())
    with opened(out) as page:
        page.locator(".row.layer", has_text="24 neurons").click()
        page.locator("canvas.neurons").click(position={"x": 16 * 4 + 8, "y": 8})
        assert page.locator(".neuron h3").inner_text() == "Neuron 4"
        there = page.locator(".neuron dd[data-feature=place]").get_attribute("data-value")
        assert element.permutations["1"][int(there)] == 4


def test_a_fine_tuned_copy_is_compared_after_alignment(tmp_path: Path) -> None:
    module, inputs = trained("mlp", 0)
    spec, state = module_spec(module, inputs), dict(module.state_dict())
    tuned = {name: tensor.clone() for name, tensor in state.items()}
    tuned["3.weight"][2] *= 1.5
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1))
    a = saved(tmp_path / "a.safetensors", module)
    save_file(element.act_state(tuned), tmp_path / "b.safetensors")
    out, told = compared(tmp_path, a, tmp_path / "b.safetensors", "--module", NAME, "--inputs",
                         "16,1,8,8")  # fmt: skip
    changes = {own["name"]: own["relative_change"] for own in told["tensors"]}
    expected = float((tuned["3.weight"] - state["3.weight"]).norm() / state["3.weight"].norm())
    assert changes["3.weight"] == pytest.approx(expected)
    assert [name for name, change in changes.items() if change] == ["3.weight"]
    data = json.loads(out.read_text().split('type="application/json">')[1].split("</script>")[0])
    block = next(own for own in data["blocks"] if own["name"] == "3.weight")
    values = np.frombuffer(base64.b64decode(block["maps"]["change"]["mean"]["f4"]), "<f4")
    change = (tuned["3.weight"] - state["3.weight"]).numpy()
    assert np.allclose(values.reshape(16, 24), change, atol=1e-7)
    assert data["marked"]["3"]["changed"] == [2]


def test_added_and_removed_tensors_are_listed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    a = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    b = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    b[0].load_state_dict(a[0].state_dict())
    paths = [saved(tmp_path / f"{n}.safetensors", net) for n, net in (("a", a), ("b", b))]
    out, told = compared(tmp_path, *paths)
    assert set(told["added"]) == {"4.weight", "4.bias"}
    assert set(told["reshaped"]) == {"2.weight", "2.bias"}
    assert {own["name"]: own["relative_change"] for own in told["tensors"]} == {
        "0.weight": 0.0,
        "0.bias": 0.0,
    }
    with opened(out, size="phone", theme="dark") as page:
        assert "[4, 5]" in page.locator("body").inner_text()
