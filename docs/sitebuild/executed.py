"""The directives ``run`` and ``shell``: a page's code is run when the page is built."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from sitebuild.session import Output, PageError, Session

LOGGER = logging.getLogger(__name__)


def register(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("run", Run)
    app.add_directive("shell", Shell)
    app.connect("config-inited", _prepare)
    app.connect("html-page-context", _colours)


class _Executed(SphinxDirective):
    """A block that is run, with what it printed and drew below it.

    A block that fails is a warning of the build, which `make docs` takes for an error.
    """

    has_content = True
    language: ClassVar[str]
    option_spec: ClassVar[Any] = {
        "hide-code": directives.flag,
        "hide-output": directives.flag,
        "alt": directives.unchanged,
        "exit": directives.nonnegative_int,
    }

    def execute(self, session: Session) -> Output:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Run the block, and show it."""
        try:
            output = self.execute(session_of(self))
        except PageError as error:
            LOGGER.warning("this block failed:\n%s", error, location=self.get_location())
            output = Output("")
        found: list[nodes.Node] = []
        if "hide-code" not in self.options:
            found.append(_block("\n".join(self.content), self.language))
        if output.text.strip() and "hide-output" not in self.options:
            found.append(_block(output.text.rstrip(), "text", "output"))
        for figure in output.figures:
            found.append(nodes.raw("", f'<figure class="drawn">{figure}</figure>', format="html"))
        return found


class Run(_Executed):
    """Python."""

    language = "python"

    def execute(self, session: Session) -> Output:
        """See :class:`_Executed`."""
        return session.python(
            "\n".join(self.content) + "\n", label=self.options.get("alt", "figure")
        )


class Shell(_Executed):
    """Commands."""

    language = "sh"

    def execute(self, session: Session) -> Output:
        """See :class:`_Executed`."""
        return session.shell(list(self.content), exit_code=self.options.get("exit", 0))


def session_of(directive: SphinxDirective) -> Session:
    """The session of the page that is being read."""
    kept = directive.env.temp_data
    if "session" not in kept:
        kept["session"] = Session(directive.env.docname)
        LOGGER.info("running the code of %s", directive.env.docname)
    session: Session = kept["session"]
    return session


def _block(text: str, language: str, *classes: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language, classes=list(classes))


def _prepare(app: Sphinx, config: Any) -> None:
    """One thread, since pages are tiny; no window; nothing drawn for terminals."""
    import matplotlib as mpl
    import torch

    mpl.use("svg")
    torch.set_num_threads(1)


def _colours(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """The colours of figures, in the theme that the reader has chosen."""
    from weightspace.report.palette import PALETTE

    light, dark = (
        "".join(f"--{name}:{pair[side]};" for name, pair in PALETTE.items()) for side in (0, 1)
    )
    context["metatags"] = context.get("metatags", "") + (
        f"<style>body{{{light}}}body[data-theme=dark]{{{dark}}}"
        "@media (prefers-color-scheme:dark)"
        f"{{body:not([data-theme=light]){{{dark}}}}}</style>"
    )
