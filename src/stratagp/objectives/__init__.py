"""Objectives: functions of a model and data that training maximises."""

from stratagp.objectives.evidence import log_evidence as log_evidence
