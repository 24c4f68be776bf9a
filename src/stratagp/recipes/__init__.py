"""Recipes: how each kind of model is learnt, and which one is chosen."""
