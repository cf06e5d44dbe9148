"""Zoos: sets of trained networks on disk, and recipes that make them."""

from weightspace.zoo.images import ImageSet, digits_images, load_images
from weightspace.zoo.inr_fit import FittedInrs, fit_inrs
from weightspace.zoo.inr_recipe import InrRecipe, fit_inr_zoo
from weightspace.zoo.render import render
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
    "FittedInrs",
    "ImageSet",
    "InrRecipe",
    "Problem",
    "Siren",
    "SirenVariant",
    "VerifyReport",
    "Zoo",
    "ZooWriter",
    "crossing_groups",
    "digits_images",
    "fit_inr_zoo",
    "fit_inrs",
    "load_images",
    "render",
    "siren_spec",
    "split_by_group",
    "verify",
]
