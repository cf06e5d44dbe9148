"""Finding networks: what is near to what, what was made of what, from weights alone."""

from weightspace.find.descriptors import CHANNELS, describe
from weightspace.find.index import Changes, Entry, Index
from weightspace.find.kinship import KINDS, Features, Kind, Kinship, kinship
from weightspace.find.lineage import Lineage, Step, trace_lineage
from weightspace.find.network import Network
from weightspace.find.reading import Folder, Problem, read_one
from weightspace.find.rounding import Rounding, rounding_of
from weightspace.find.searching import Found, search

__all__ = [
    "CHANNELS",
    "KINDS",
    "Changes",
    "Entry",
    "Features",
    "Folder",
    "Found",
    "Index",
    "Kind",
    "Kinship",
    "Lineage",
    "Network",
    "Problem",
    "Rounding",
    "Step",
    "describe",
    "kinship",
    "read_one",
    "rounding_of",
    "search",
    "trace_lineage",
]
