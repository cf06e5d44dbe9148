"""The page of a demo's report: its header, and its parts in order."""

from __future__ import annotations

from shlex import quote

from weightspace import __version__
from weightspace.report.demo_models import confusion_section, learning_section, map_section
from weightspace.report.demo_networks import networks_section
from weightspace.report.demo_report import DemoReport
from weightspace.report.demo_results import best_model, header, results_section
from weightspace.report.page import Section, element, write_page


def demo_page(report: DemoReport) -> str:
    """The HTML of a report."""
    sections = [networks_section(report)]
    if report.models:
        models = (results_section, learning_section, confusion_section, map_section)
        results, *others = (section(report) for section in models)
        sections = [results, *sections, *others]
    if report.settings:
        sections.append(_settings_section(report))
    return write_page(
        title=f"Reading {report.dataset} networks from their weights",
        header=header(report),
        sections=[*sections, _next_section(report)],
        footer=f"Written by weightspace {__version__}. This page is one file and loads nothing.",
    )


def _settings_section(report: DemoReport) -> Section:
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in report.settings.items()
    ]
    note = element("p", "What this run was made with; the same settings repeat it.", class_="intro")
    table = element("table", element("tbody", *rows), class_="settings")
    return Section("settings", "Settings", [note, element("div", table, class_="card")])


def _next_section(report: DemoReport) -> Section:
    commands = report.commands or _commands(report)
    steps = [
        element("li", element("p", f"{what[:1].upper()}{what[1:]}:"), element("code", command))
        for command, what in commands.items()
    ]
    intro = element("p", "Commands to type in the folder of this page.", class_="intro")
    return Section("next", "How to go on", [intro, element("ul", *steps, class_="steps")])


def _commands(report: DemoReport) -> dict[str, str]:
    """What can be done with what the demo writes beside its report."""
    commands = {
        "weightspace zoo info zoo": "see what the zoo of these networks holds",
        "weightspace render zoo --height 512": "draw the image of a network, at any size",
    }
    if report.models:
        best = report.models[best_model(report.models)].name
        file = quote(f"models/{best}/model.safetensors")
        commands[f"weightspace predict {file} NETWORK.safetensors"] = (
            "ask the best model about networks of your own"
        )
    return commands
