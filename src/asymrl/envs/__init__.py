"""Worlds: partially observable control problems as pure functions."""

from asymrl.envs.car_flag import CarFlag as CarFlag
from asymrl.envs.checker import CheckError as CheckError
from asymrl.envs.checker import check as check
from asymrl.envs.classics import GoodBad as GoodBad
from asymrl.envs.classics import Tiger as Tiger
from asymrl.envs.cleaner import Cleaner as Cleaner
from asymrl.envs.finite import FiniteWorld as FiniteWorld
from asymrl.envs.heaven_hell import HeavenHell as HeavenHell
from asymrl.envs.memory_rooms import MemoryFourRooms as MemoryFourRooms
from asymrl.envs.registry import make as make
from asymrl.envs.rows import Rows as Rows
from asymrl.envs.scores import Scores as Scores
from asymrl.envs.scores import scores as scores
from asymrl.envs.shopping import Shopping as Shopping
from asymrl.envs.spaces import Box as Box
from asymrl.envs.spaces import Discrete as Discrete
from asymrl.envs.spaces import Indices as Indices
from asymrl.envs.spaces import Record as Record
from asymrl.envs.spaces import Space as Space
from asymrl.envs.world import Episode as Episode
from asymrl.envs.world import Signal as Signal
from asymrl.envs.world import Step as Step
from asymrl.envs.world import Transition as Transition
from asymrl.envs.world import World as World
from asymrl.names import PAPER_WORLDS as PAPER_WORLDS
from asymrl.names import WORLDS as WORLDS
