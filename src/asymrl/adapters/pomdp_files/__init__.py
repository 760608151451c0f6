"""Problems in files: `.pomdp`, the format of pomdp-solve."""

from asymrl.adapters.pomdp_files.problem import Problem as Problem
from asymrl.adapters.pomdp_files.reader import checksum as checksum
from asymrl.adapters.pomdp_files.reader import parse_text as parse_text
from asymrl.adapters.pomdp_files.reader import read_pomdp as read_pomdp
from asymrl.adapters.pomdp_files.tokens import FileError as FileError
from asymrl.adapters.pomdp_files.tokens import Limits as Limits
from asymrl.adapters.pomdp_files.writer import to_text as to_text
from asymrl.adapters.pomdp_files.writer import write_pomdp as write_pomdp
