"""Model files: fitted estimators as folders of JSON and tensors, without pickle; a stranger's file cannot run code."""

from stratagp.persistence.export import export as export
from stratagp.persistence.models import describe as describe
from stratagp.persistence.models import load as load
from stratagp.persistence.models import save as save
