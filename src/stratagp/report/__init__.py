"""A report about a fitted model: one HTML page that needs no network.

:func:`stratagp.report.results.gather` asks a model for plain results, which JSON can hold; :func:`write_report` makes
the page from these alone.
"""

from stratagp.report.page import write_report as write_report
from stratagp.report.results import gather as gather
