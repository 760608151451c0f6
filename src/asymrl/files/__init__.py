"""Problems in files: `.pomdp`, the format of pomdp-solve."""

from asymrl.files.errors import FileError as FileError
from asymrl.files.errors import Limits as Limits
from asymrl.files.problem import Problem as Problem
from asymrl.files.reader import checksum as checksum
from asymrl.files.reader import parse_text as parse_text
from asymrl.files.reader import read as read
from asymrl.files.writer import to_text as to_text
from asymrl.files.writer import write as write
