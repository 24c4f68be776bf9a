"""From what a user hands over to numbers that a kernel can see: tables, categories, dates, missing entries, scales."""

from stratagp.data.encoding import Encoded as Encoded
from stratagp.data.encoding import TableEncoder as TableEncoder
from stratagp.data.encoding import needs_encoding as needs_encoding
from stratagp.data.missing import GaussianImputer as GaussianImputer
from stratagp.data.missing import Imputed as Imputed
from stratagp.data.scaling import TargetScale as TargetScale
