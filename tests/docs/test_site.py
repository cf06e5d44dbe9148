"""The documentation site: its pages run, its reference is whole, its results are the files'."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.append(str(ROOT / "docs"))

pytest.importorskip("sphinx")

from sphinx.application import Sphinx  # noqa: E402

from sitebuild import executed  # noqa: E402
from sitebuild.links import rewritten  # noqa: E402
from sitebuild.names import comment_of, documented, leaves, packages, public_names  # noqa: E402
from sitebuild.reference import missing, reference_pages  # noqa: E402
from sitebuild.references import found  # noqa: E402
from sitebuild.results import committed, results_text, table_of  # noqa: E402
from sitebuild.session import PageError, Session  # noqa: E402

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```\{(run|shell)\}", re.MULTILINE)


@pytest.fixture
def session() -> Session:
    return Session("page/of-a-test")


def test_blocks_share_names_and_show_what_is_printed(session: Session) -> None:
    assert session.python("x = 2\nprint('two')\n").text == "two\n"
    assert session.python("print(x + 1)\n").text == "3\n"
    (session.folder / "here.txt").write_text("there")
    assert session.shell(["cat here.txt", "echo two \\", "words"]).text == "there\ntwo words"


def test_figures_are_elements_with_a_description(session: Session) -> None:
    code = "import matplotlib.pyplot as plt\nplt.figure().add_subplot().plot([0, 1])\n"
    (figure,) = session.python(code, label="a <line>").figures
    assert figure.startswith("<svg")
    assert 'aria-label="a &lt;line&gt;"' in figure
    assert not session.python("pass\n").figures


def test_what_fails_is_an_error_with_what_was_printed(session: Session) -> None:
    with pytest.raises(PageError, match=r"ZeroDivisionError[\s\S]*before it"):
        session.python("print('before it')\n1 / 0\n")
    with pytest.raises(PageError, match="ended with 3, not 0"):
        session.shell(["exit 3", "echo later"])
    assert session.shell(["exit 3"], exit_code=3).text == ""


@pytest.mark.parametrize("code", ["print(6 * 7)", "raise ValueError('on purpose')"])
def test_a_block_that_fails_fails_the_build(code: str, tmp_path: Path) -> None:
    source, warnings = tmp_path / "source", io.StringIO()
    source.mkdir()
    (source / "index.md").write_text(f"# A page\n\n```{{run}}\n{code}\n```\n")
    overrides = {"extensions": ["myst_parser"], "exclude_patterns": []}
    app = Sphinx(
        source, None, tmp_path / "out", tmp_path / "trees", "html",
        overrides, status=None, warning=warnings, warningiserror=True,
    )  # fmt: skip
    executed.register(app)
    app.build()
    page = (tmp_path / "out" / "index.html").read_text()
    assert (app.statuscode == 0) == (code == "print(6 * 7)")
    assert ("on purpose" in warnings.getvalue()) == (app.statuscode != 0)
    assert ("42" in page) == (app.statuscode == 0)


def test_commands_of_the_package_run_in_the_pages_folder(session: Session) -> None:
    assert "ng-gnn" in session.shell(["weightspace models"]).text
    text = session.shell(["weightspace zoo info nothing"], exit_code=2).text
    assert "nothing" in text
    with pytest.raises(PageError, match="nothing"):
        session.shell(["weightspace zoo info nothing"])


def test_every_tutorial_runs_something_and_is_listed() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert len(TUTORIALS) >= 10
    for page in TUTORIALS:
        assert f"tutorials/{page.stem}\n" in index, page.stem
        assert BLOCK.search(page.read_text()), page.stem


def test_every_public_name_has_documentation_and_a_place() -> None:
    roots = packages()
    assert {"weightspace", "weightspace.graph", "weightspace.models"} <= set(roots)
    pages, elsewhere = documented(roots)
    described = {item.path for items in pages.values() for item in items}
    assert not list(missing(roots, described))
    everything = {item.path for root in roots for item in public_names(root)}
    assert everything == described | set(elsewhere)
    assert set(elsewhere.values()) <= described
    assert elsewhere["weightspace.importers.from_module"] == "weightspace.from_module"


def test_a_name_that_is_left_out_is_found() -> None:
    roots = ["weightspace.graph"]
    described = {item.path for item in documented(roots)[0]["weightspace.graph"]}
    gone = described - {"weightspace.graph.GraphSpec"}
    assert list(missing(roots, gone)) == ["weightspace.graph.GraphSpec is not in the reference"]


def test_pages_of_packages_name_every_thing_once() -> None:
    (text,) = reference_pages(["weightspace.zoo"]).values()
    for item in public_names("weightspace.zoo"):
        place = item.name if item.kind == "data" else item.path
        assert len(re.findall(rf":: {re.escape(place)}$", text, re.MULTILINE)) == 1, item.path
    assert comment_of("weightspace.zoo.siren", "PUBLISHED") in text.replace("   ", "")


def test_references_in_docstrings_must_exist() -> None:
    assert found("weightspace.graph.chain.chain_spec", None, None) is not None
    assert found("reordering", "weightspace.align", "Alignment") is not None  # a field
    assert found("weightspace.graph.chain.nothing", None, None) is None
    assert found("os.path", None, None) is None


def test_all_commands_are_listed() -> None:
    from weightspace.cli.main import app

    commands = {" ".join(words) for words in leaves(app())}
    assert {"demo", "train", "zoo make", "relational analyse"} <= commands


def test_links_lead_to_pages_or_files() -> None:
    page = ROOT / "docs" / "relational.md"
    text = (
        "[a](models.md#x) [b](../CONTRIBUTING.md) [c](../experiments/demo/README.md) "
        "[d](../experiments/demo/results/digits.json) [e](../experiments/demo) [f](https://x.org/)"
    )
    assert rewritten(text, page, ROOT) == (
        "[a](/models.md#x) [b](/project/contributing.md) [c](/results/generated/demo.md) "
        "{download}`d </../experiments/demo/results/digits.json>` e (`experiments/demo`) "
        "[f](https://x.org/)"
    )


def test_results_are_those_of_the_files() -> None:
    text = results_text(ROOT)
    for path in committed(ROOT):
        data = json.loads(path.read_text())
        if path.parts[-3] == "metanetworks":
            for row in data["models"]:
                assert f"| {row['model']} |" in text
                assert f"| {row['accuracy_mean']:.4g} ± {row['accuracy_deviation']:.2g} |" in text
        elif "methods" in data:
            metric = data["metric"]
            for row in data["methods"]:
                assert f"| {row[metric]['mean']:.4g}" in text
    assert "| ng-gnn | 91.40 (MNIST) |" in text  # published, beside ours


def test_unknown_forms_of_results_are_left_out() -> None:
    assert table_of({"settings": {}, "rows": []}) is None
    assert table_of([1, 2]) is None
    head, rows = table_of({"a": {"stage": "ok"}, "b": {"stage": "import"}}) or ([], [])
    assert head[0] == "stage reached"
    assert rows[:2] == [["import", "1"], ["ok", "1"]]
