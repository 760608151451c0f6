"""Problems in files: `.pomdp`, the format of pomdp-solve."""

from asymrl.envs.pomdp_files.problem import Problem as Problem
from asymrl.envs.pomdp_files.reader import checksum as checksum, parse_text as parse_text, read_pomdp as read_pomdp
from asymrl.envs.pomdp_files.tokens import FileError as FileError, Limits as Limits
from asymrl.envs.pomdp_files.writer import to_text as to_text, write_pomdp as write_pomdp
