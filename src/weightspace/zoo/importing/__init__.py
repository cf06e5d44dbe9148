"""Taking in the zoos that people have: folders of checkpoints in the layouts of the field."""

from weightspace.zoo.importing.importing import import_zoo
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.layouts import LAYOUTS
from weightspace.zoo.importing.options import ImportOptions
from weightspace.zoo.importing.report import ImportReport

__all__ = ["LAYOUTS", "ImportOptions", "ImportReport", "Layout", "import_zoo"]
