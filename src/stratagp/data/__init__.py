"""From what a user hands over to numbers that a kernel can see: tables, categories, dates, missing entries, scales."""

from stratagp.data.encoding import EncodedTable as EncodedTable
from stratagp.data.encoding import TableEncoder as TableEncoder
from stratagp.data.encoding import needs_encoding as needs_encoding
from stratagp.data.files import open_source as open_source
from stratagp.data.missing import GaussianImputer as GaussianImputer
from stratagp.data.missing import Imputed as Imputed
from stratagp.data.rules import Rules as Rules
from stratagp.data.scaling import TargetScale as TargetScale
from stratagp.data.source import Arrays as Arrays
from stratagp.data.source import Frame as Frame
from stratagp.data.source import Source as Source
from stratagp.data.stream import Stream as Stream
from stratagp.data.survey import survey as survey
