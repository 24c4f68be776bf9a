"""Layers: maps from points to beliefs about function values; a model is a chain of them."""

from stratagp.layers.base import Belief as Belief
from stratagp.layers.base import Layer as Layer
from stratagp.layers.inducing import Inducing as Inducing
