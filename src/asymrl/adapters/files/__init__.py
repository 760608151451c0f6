"""Problems in files: `.pomdp`, the format of pomdp-solve."""

from asymrl.adapters.files.errors import FileError as FileError
from asymrl.adapters.files.errors import Limits as Limits
from asymrl.adapters.files.problem import Problem as Problem
from asymrl.adapters.files.reader import checksum as checksum
from asymrl.adapters.files.reader import parse_text as parse_text
from asymrl.adapters.files.reader import read as read
from asymrl.adapters.files.writer import to_text as to_text
from asymrl.adapters.files.writer import write as write
