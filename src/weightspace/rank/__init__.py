"""Ranking networks by what was measured of others: which will do well, and how sure that is."""

from weightspace.rank.examples import Examples
from weightspace.rank.features import FEATURES, features_of, features_of_all
from weightspace.rank.predicting import Ranked, rank_networks
from weightspace.rank.ranking import Ranking, Said, fit_ranking
from weightspace.rank.saving import is_ranking, load_ranking, save_ranking
from weightspace.rank.trust import Trust

__all__ = [
    "FEATURES",
    "Examples",
    "Ranked",
    "Ranking",
    "Said",
    "Trust",
    "features_of",
    "features_of_all",
    "fit_ranking",
    "is_ranking",
    "load_ranking",
    "rank_networks",
    "save_ranking",
]
