"""Model files: fitted estimators as folders of JSON and tensors, without pickle; a stranger's file cannot run code."""

from stratagp.persistence.files import describe as describe
