"""Recipes: how each kind of model is learnt, which one is chosen, and what a fit may cost."""

from stratagp.recipes.budget import Budget as Budget
from stratagp.recipes.budget import Plan as Plan
from stratagp.recipes.budget import plan as plan
from stratagp.recipes.candidates import MANY_CLASSES as MANY_CLASSES
from stratagp.recipes.choose import of_table as of_table
