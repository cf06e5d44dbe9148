"""Zoos: sets of trained networks on disk, and recipes that make them."""

from weightspace.zoo.images import ImageSet, digits_images, load_images
from weightspace.zoo.inr_fit import fit_inrs
from weightspace.zoo.inr_recipe import InrImages, fit_inr_zoo
from weightspace.zoo.recipe import Engine, LocalPool, MadePart, Recipe, make_zoo
from weightspace.zoo.render import render
from weightspace.zoo.signal_fit import FittedSignals, Samples, fit_signals
from weightspace.zoo.signal_recipe import InrRecipe, SignalRecipe
from weightspace.zoo.siren import (
    PUBLISHED,
    PUBLISHED_EXACT,
    TEXTBOOK,
    Siren,
    SirenVariant,
    siren_spec,
)
from weightspace.zoo.splits import crossing_groups, split_by_group
from weightspace.zoo.store import Zoo
from weightspace.zoo.verify import Problem, VerifyReport, verify
from weightspace.zoo.writer import ZooWriter

__all__ = [
    "PUBLISHED",
    "PUBLISHED_EXACT",
    "TEXTBOOK",
    "Engine",
    "FittedSignals",
    "ImageSet",
    "InrImages",
    "InrRecipe",
    "LocalPool",
    "MadePart",
    "Problem",
    "Recipe",
    "Samples",
    "SignalRecipe",
    "Siren",
    "SirenVariant",
    "VerifyReport",
    "Zoo",
    "ZooWriter",
    "crossing_groups",
    "digits_images",
    "fit_inr_zoo",
    "fit_inrs",
    "fit_signals",
    "load_images",
    "make_zoo",
    "render",
    "siren_spec",
    "split_by_group",
    "verify",
]
