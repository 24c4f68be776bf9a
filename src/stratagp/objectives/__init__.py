"""Objectives: functions of a model and data that training maximises."""

from stratagp.objectives.collapsed import fitc as fitc
from stratagp.objectives.collapsed import nystrom as nystrom
from stratagp.objectives.collapsed import sgpr as sgpr
from stratagp.objectives.collapsed import upper_bound as upper_bound
from stratagp.objectives.elbo import Bound as Bound
from stratagp.objectives.elbo import elbo as elbo
from stratagp.objectives.ep import ep_log_evidence as ep_log_evidence
from stratagp.objectives.evidence import log_evidence as log_evidence
from stratagp.objectives.evidence import log_leave_one_out as log_leave_one_out
from stratagp.objectives.heteroscedastic import heteroscedastic_bound as heteroscedastic_bound
from stratagp.objectives.laplace import laplace_log_evidence as laplace_log_evidence
from stratagp.objectives.leave_one_out import LeaveOneOut as LeaveOneOut
from stratagp.objectives.leave_one_out import leave_one_out as leave_one_out
from stratagp.objectives.local_bound import local_evidence_bound as local_evidence_bound
from stratagp.objectives.predictive_bound import predictive_bound as predictive_bound
from stratagp.objectives.sites import Sites as Sites
from stratagp.objectives.sites import WarmStart as WarmStart
from stratagp.objectives.softmax_laplace import softmax_log_evidence as softmax_log_evidence
