"""Layers: maps from points to beliefs about function values; a model is a chain of them."""

from stratagp.layers.base import Belief as Belief
from stratagp.layers.base import Layer as Layer
from stratagp.layers.features import Features as Features
from stratagp.layers.grid import Grid as Grid
from stratagp.layers.inducing import Inducing as Inducing
from stratagp.layers.random_features import RandomFeatures as RandomFeatures
from stratagp.layers.side_by_side import SideBySide as SideBySide
from stratagp.layers.stack import Stack as Stack
from stratagp.layers.uncertain import LatentRows as LatentRows
from stratagp.layers.uncertain import Measured as Measured
from stratagp.layers.uncertain import Noisy as Noisy
