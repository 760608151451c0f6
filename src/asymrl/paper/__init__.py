"""The paper as data: what its grid search found, what it searched, and how long it trained."""

from asymrl.paper.tuned import PAPER_WORLDS as PAPER_WORLDS
from asymrl.paper.tuned import RATES as RATES
from asymrl.paper.tuned import budget as budget
from asymrl.paper.tuned import grid as grid
from asymrl.paper.tuned import tuned as tuned
