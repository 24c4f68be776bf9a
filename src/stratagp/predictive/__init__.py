"""Predictive distributions: what may be observed, or what the function may be, at some rows."""

from stratagp.predictive.base import Predictive as Predictive
from stratagp.predictive.classes import Classes as Classes
from stratagp.predictive.classes import pooled as pooled
from stratagp.predictive.location_scale import LocationScale as LocationScale
from stratagp.predictive.mixture import Averaged as Averaged
from stratagp.predictive.mixture import MixtureOf as MixtureOf
from stratagp.predictive.mixture import Spliced as Spliced
from stratagp.predictive.mixture import mixture as mixture
from stratagp.predictive.narrowed import Narrowed as Narrowed
from stratagp.predictive.narrowed import narrowed as narrowed
from stratagp.predictive.observed import Observed as Observed
from stratagp.predictive.units import InUnits as InUnits
from stratagp.predictive.whole import Whole as Whole
