"""The demo's report: a page that stands alone and says what it was given."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from dataclasses import replace
from html import escape
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from tests.report.reports import Parsed, demo_report, model_report
from weightspace.errors import DataError, FileError
from weightspace.report import DemoReport, write_demo_report

EVIL = "<script>alert('x')</script>\" onload='y' <img src=//e.example/a> &amp; ]]> $x_1$"


def written(report: DemoReport, folder: Path) -> str:
    path = folder / "report.html"
    write_demo_report(path, report)
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(demo_report(), tmp_path_factory.mktemp("report"))


def assert_stands_alone(html: str) -> Parsed:
    parsed = Parsed(html)
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form", "image"}
    for _, attributes in parsed.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")
        assert attributes.get("href", "#").startswith("#")
        assert not attributes.keys() & {"srcset", "xlink:href", "action", "data"}
    assert set(re.findall(r"url\(([^)]{0,2})", html)) <= {"#p"}
    assert "@import" not in html
    return parsed


def test_page_stands_alone(page: str) -> None:
    parsed = assert_stands_alone(page)
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    policy = next(meta for meta in parsed.all("meta") if "http-equiv" in meta)
    assert "default-src 'none'" in policy["content"]


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    parsed = Parsed(page)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    # Matplotlib names markers by their content: equal names are equal shapes.
    named = [name for name in ids if not re.fullmatch(r"[mpC][0-9a-f_]+", name)]
    assert len(set(named)) == len(named)
    links = [attributes["href"][1:] for _, attributes in parsed.elements if "href" in attributes]
    clips = re.findall(r"url\(#([^)]*)\)", page)
    assert links
    assert {*links, *clips} <= set(ids)


def test_shared_shapes_have_one_meaning(page: str) -> None:
    shapes: dict[str, set[str]] = {}
    for tag, attributes in Parsed(page).elements:
        if re.fullmatch(r"m[0-9a-f]+", attributes.get("id", "")):
            shapes.setdefault(attributes["id"], set()).add(tag + attributes["d"])
    assert shapes
    assert all(len(meanings) == 1 for meanings in shapes.values())


def test_everything_seen_is_said(page: str) -> None:
    parsed = Parsed(page)
    assert all(image["alt"] for image in parsed.all("img"))
    for svg in parsed.all("svg"):
        assert svg.get("aria-hidden") == "true" or (svg["role"] == "img" and svg["aria-label"])
    assert len(parsed.all("h1")) == 1
    assert len(parsed.all("figcaption")) == len(parsed.all("figure"))


def test_main_numbers_are_there(page: str) -> None:
    report = demo_report()
    text = Parsed(page).text.replace("\u00a0", " ")
    best = max(model.test_accuracy for model in report.models)
    assert f"names the class of {100 * best:.1f} % of 12 networks" in text
    assert "33.3 %" in text
    for model in report.models:
        assert model.name in text
    assert "1,234" in text
    assert "9.5 a second" in text
    assert f"{np.median(report.psnr):.1f} dB median PSNR" in text
    name = max(report.models, key=lambda model: model.test_accuracy).name
    for command in (f"predict 'models/{name}/model.safetensors'", "render zoo", "zoo info zoo"):
        assert f"weightspace {command}" in text


def test_given_commands_stand_instead(tmp_path: Path) -> None:
    report = demo_report(models=[], commands={"weightspace zoo verify x": "check the zoo"})
    text = Parsed(written(report, tmp_path)).text
    assert "Check the zoo: weightspace zoo verify x" in text
    assert "zoo info" not in text


def test_images_are_the_images(page: str) -> None:
    report = demo_report()
    found = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))))
        for image in Parsed(page).all("img")
    ]
    wanted = [
        array[index, ..., 0]
        for index in range(2)
        for array in (report.originals, report.rendered, report.enlarged)
    ]
    assert len(found) == len(wanted)
    for image, values in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(image, np.round(255 * values))


@pytest.mark.parametrize("where", ["dataset", "classes", "settings", "model", "commands"])
def test_strings_from_outside_are_text(where: str, tmp_path: Path) -> None:
    changes = {
        "dataset": {"dataset": EVIL},
        "classes": {"classes": [EVIL, EVIL + "2", "c"]},
        "settings": {"settings": {EVIL: EVIL}},
        "model": {"models": [model_report(3, name=EVIL, summary=EVIL)]},
        "commands": {"commands": {EVIL: EVIL}},
    }
    html = written(demo_report(**changes[where]), tmp_path)
    parsed = assert_stands_alone(html)
    assert not parsed.all("img")[len(demo_report().originals) * 3 :]
    assert escape(EVIL, quote=False)[:20] in html
    assert "alert('x')" in parsed.text


@pytest.mark.parametrize("name", ["a\x00b\x1b", "\ud800", "two\nlines", "\u732b \u0627", " " * 9])
def test_strange_names_are_written(name: str, tmp_path: Path) -> None:
    report = demo_report(dataset=name, classes=[name, "b", "c"], settings={name: name})
    assert_stands_alone(written(report, tmp_path))


def test_single_model(tmp_path: Path) -> None:
    parsed = Parsed(written(demo_report(models=[model_report(3)]), tmp_path))
    assert all(span.get("class") != "badge" for span in parsed.all("span"))
    assert parsed.all("details") == []


def test_no_models(tmp_path: Path) -> None:
    parsed = assert_stands_alone(written(demo_report(models=[]), tmp_path))
    assert "No model was trained" in parsed.text
    assert "Confusion" not in parsed.text


def test_many_classes_in_colour(tmp_path: Path) -> None:
    models = [model_report(100, 150, seed=seed) for seed in range(2)]
    report = demo_report(100, images=10, channels=3, models=models)
    html = written(report, tmp_path)
    parsed = assert_stands_alone(html)
    assert len(html) < 1_000_000
    assert "c99" in parsed.text
    assert len(parsed.all("img")) == 30
    first = parsed.all("img")[0]["src"].partition(",")[2]
    assert Image.open(io.BytesIO(base64.b64decode(first))).mode == "RGB"


@pytest.mark.parametrize("networks", [0, 1, 2, 5])
def test_few_networks(networks: int, tmp_path: Path) -> None:
    report = demo_report(2, models=[model_report(2, networks, history=[])], psnr=np.ones(networks))
    assert "No epochs were recorded" in assert_stands_alone(written(report, tmp_path)).text


def test_what_was_not_measured(tmp_path: Path) -> None:
    nan = float("nan")
    model = model_report(
        3,
        test_accuracy=nan,
        train_seconds=nan,
        history=[{"epoch": 0.0, "val_loss": nan}, {"train_loss": float("inf")}],
        embeddings=np.full((12, 2), nan),
    )
    report = demo_report(
        models=[model],
        psnr=np.array([np.inf, nan]),
        fit_seconds=nan,
        networks_per_second=nan,
        settings={},
        originals=np.zeros((0, 8, 8, 1)),
        rendered=np.zeros((0, 8, 8, 1)),
        enlarged=np.zeros((0, 32, 32, 1)),
    )
    text = assert_stands_alone(written(report, tmp_path)).text
    assert "nan" not in text.lower().split()
    assert "not measured" in text
    assert "No epochs were recorded" in text
    assert "no finite embeddings" in text


def test_best_model_is_a_measured_one(tmp_path: Path) -> None:
    models = [
        model_report(3, name="First", test_accuracy=float("nan")),
        model_report(3, name="Second", test_accuracy=0.0),
    ]
    parsed = Parsed(written(demo_report(models=models), tmp_path))
    assert "Second names the class of" in parsed.text


def test_chance_is_called_chance(tmp_path: Path) -> None:
    models = [model_report(3, 12, test_accuracy=4 / 12)]
    text = Parsed(written(demo_report(models=models), tmp_path)).text
    assert "not clearly better than guessing" in text


def test_heavy_page_stays_light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise, which does not compress, more images and networks than a page can show."""
    monkeypatch.setattr(
        "weightspace.report.demo_models.embedding_map", lambda values, seed: values[:, :2]
    )
    models = [model_report(10, 3000, seed=seed) for seed in range(4)]
    heavy = demo_report(10, images=30, channels=3, side=64, models=models)
    html = written(heavy, tmp_path)
    assert len(html) < 3_000_000
    parsed = assert_stands_alone(html)
    assert len(parsed.all("img")) == 3 * 24
    assert "600 of them are shown" in parsed.text.replace("\u00a0", " ")


def test_same_report_same_page(page: str, tmp_path: Path) -> None:
    assert written(demo_report(), tmp_path) == page


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    mpl.rcParams["lines.linewidth"] = 7.5
    before = dict(mpl.rcParams)
    try:
        written(demo_report(), tmp_path)
        assert dict(mpl.rcParams) == before
    finally:
        mpl.rcParams["lines.linewidth"] = mpl.rcParamsDefault["lines.linewidth"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_importing_is_cheap() -> None:
    code = (
        "import sys, weightspace.report as r; "
        "print([m for m in ('matplotlib', 'sklearn', 'torch', 'scipy', 'PIL', 'rich') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"originals": np.zeros((2, 8, 8))}, "originals"),
        ({"originals": np.zeros((2, 8, 8, 2))}, "originals"),
        ({"rendered": np.zeros((1, 8, 8, 1))}, "rendered"),
        ({"enlarged": np.zeros((2, 32, 32, 3))}, "enlarged"),
        ({"enlarged": np.zeros((2, 32))}, "enlarged"),
        ({"models": [model_report(4)]}, "Model 0"),
        ({"models": [model_report(3, labels=np.zeros(5, dtype=int))]}, "Model 0"),
        ({"models": [model_report(3, labels=np.full(12, 3))]}, "Model 0"),
        ({"models": [model_report(3, embeddings=np.zeros(12))]}, "Model 0"),
    ],
)
def test_contradictions_are_refused(
    change: dict[str, object], subject: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(DataError, match=subject):
        write_demo_report(path, replace(demo_report(), **change))  # type: ignore[arg-type]
    assert path.read_text() == "old"


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"report\.html"):
        write_demo_report(tmp_path / "none" / "report.html", demo_report(models=[]))
