"""Turns what a user hands over into numbers for a kernel: tables, categories, dates, missing entries, scales."""

from stratagp.data import dates as dates
from stratagp.data import identifiers as identifiers
from stratagp.data.encoding import EncodedTable as EncodedTable
from stratagp.data.encoding import TableEncoder as TableEncoder
from stratagp.data.encoding import needs_encoding as needs_encoding
from stratagp.data.files import ParquetFiles as ParquetFiles
from stratagp.data.files import open_source as open_source
from stratagp.data.missing import GaussianImputer as GaussianImputer
from stratagp.data.missing import Imputed as Imputed
from stratagp.data.rules import DROPPING as DROPPING
from stratagp.data.rules import Divided as Divided
from stratagp.data.rules import Rules as Rules
from stratagp.data.sampling import Sample as Sample
from stratagp.data.sampling import mixed as mixed
from stratagp.data.scaling import TargetScale as TargetScale
from stratagp.data.schema import Field as Field
from stratagp.data.schema import Refused as Refused
from stratagp.data.schema import Schema as Schema
from stratagp.data.schema import as_stored as as_stored
from stratagp.data.schema import examine as examine
from stratagp.data.source import Arrays as Arrays
from stratagp.data.source import Frame as Frame
from stratagp.data.source import Mapped as Mapped
from stratagp.data.source import Source as Source
from stratagp.data.stream import Stream as Stream
from stratagp.data.survey import survey as survey
