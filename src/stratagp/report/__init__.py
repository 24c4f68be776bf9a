"""A self-contained page about a fitted model, for somebody who has a file and a question (``stratagp[plot]``).

:func:`stratagp.report.results.gather` asks a model for plain results, which can be kept as JSON; :func:`write_report`
makes the page from those alone.
"""

from stratagp.report.page import write_report as write_report
from stratagp.report.results import gather as gather
