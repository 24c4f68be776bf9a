"""Objectives: functions of a model and data that training maximises."""

from stratagp.objectives.evidence import log_evidence as log_evidence
from stratagp.objectives.evidence import log_leave_one_out as log_leave_one_out
