"""Worlds by name."""

from __future__ import annotations

import pytest

from asymrl.report.paper import PAPER_WORLDS
from asymrl.worlds import WORLDS, Cleaner, HeavenHell, MemoryFourRooms, Shopping, Tiger, make, registry


@pytest.mark.parametrize("name", WORLDS)
def test_names(name):
    env = make(name)
    assert env.name == name
    assert env.time_limit == registry.usual_time_limit(name) == (500 if name == "cart-pole" else 100)
    assert env.discount == {"tiger": 0.95, "t-maze": 0.98, "rock-sample": 0.95}.get(name.rstrip("-0123456789"), 0.99)


def test_the_paper_has_eight_worlds():
    assert len(PAPER_WORLDS) == 8
    others = {name.rstrip("-0123456789") for name in set(WORLDS) - set(PAPER_WORLDS)}
    assert others == {"good-bad", "tiger", "cart-pole", "t-maze", "rock-sample"}


def test_a_source_makes_worlds_from_outside(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_SOURCES", [])
    with pytest.raises(ValueError, match="unknown world 'zoo/tiger'") as caught:
        make("zoo/tiger")
    assert "zoo" not in str(caught.value).partition("Known worlds")[2]
    zoo = registry.Source("zoo/NAME", lambda name: name.startswith("zoo/"), lambda name, options: Tiger(**options.bare))
    registry.add_source(zoo)
    registry.add_source(zoo)  # once is enough
    assert make("zoo/tiger:time_limit=7", discount=0.5).time_limit == 7
    assert registry.source_of("zoo/tiger:time_limit=7") is zoo
    assert registry.source_of("tiger") is None
    with pytest.raises(ValueError, match=r"Known worlds: .*, tiger, .*zoo/NAME\.$"):
        make("lion")


def test_any_size():
    hell, shop, rooms = make("heaven-hell-11"), make("shopping-3"), make("memory-four-rooms-5x11")
    assert isinstance(hell, HeavenHell)
    assert hell.n == 11
    assert isinstance(shop, Shopping)
    assert shop.n == 3
    assert isinstance(rooms, MemoryFourRooms)
    assert (rooms.height, rooms.width) == (5, 11)


def test_options():
    assert make("heaven-hell-3", time_limit=7).time_limit == 7
    assert make("car-flag", time_limit=None).time_limit is None
    assert make("good-bad", discount=0.5).discount == 0.5
    rooms = make("memory-four-rooms-7x7", actions=8, colours=2)
    assert isinstance(rooms, MemoryFourRooms)
    assert (rooms.actions, rooms.colours) == (8, 2)


def test_options_in_the_name():
    cleaner = make("cleaner:maze_seed=7, height=9,width=5,end_when_clean=true,time_limit=none,discount=0.5")
    assert isinstance(cleaner, Cleaner)
    assert cleaner.walls.shape == (9, 5)
    assert cleaner.end_when_clean
    assert cleaner.time_limit is None
    assert cleaner.discount == 0.5
    tiger = make("tiger:episodic=true", time_limit=3)
    assert isinstance(tiger, Tiger)
    assert tiger.episodic
    assert tiger.time_limit == 3


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("heavenhell-3", "heaven-hell-3"),
        ("heaven-hel-4", "heaven-hell-4"),
        ("HeavenHell-3", "heaven-hell-3"),
        ("shoping-5", "shopping-5"),
        ("carflag", "car-flag"),
        ("CLEANER", "cleaner"),
        ("memory-rooms-7x7", "memory-four-rooms-7x7"),
        ("goodbad", "good-bad"),
        ("tigre", "tiger"),
        ("cartpole", "cart-pole"),
        ("tmaze-10", "t-maze-10"),
        ("RockSample-7-8", "rock-sample-7-8"),
    ],
)
def test_an_unknown_world_suggests_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"unknown world '{name}'. Did you mean '{nearest}'") as caught:
        make(name)
    assert "memory-four-rooms-HxW" in str(caught.value)


@pytest.mark.parametrize("name", ["qqqqqq", "", "heaven-hell", "heaven-hell-x", "heaven-hell--3", "car-flag-3"])
def test_unknown_worlds(name):
    with pytest.raises(ValueError, match=f"unknown world '{name}'.*Known worlds: heaven-hell-N, shopping-N"):
        make(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("heaven-hell-0", "heaven-hell-0: the corridors need at least one cell"),
        ("shopping-1", "shopping-1: the shop needs at least 2 x 2 cells"),
        ("memory-four-rooms-6x6", "memory-four-rooms-6x6: height and width must be odd and at least 5"),
        ("memory-four-rooms-7x8", "memory-four-rooms-7x8: height and width must be odd"),
        ("memory-four-rooms-3x3", "memory-four-rooms-3x3: height and width must be odd and at least 5"),
        ("cleaner:maze_seed=1,height=4", "size 4x13; height and width must be odd"),
        ("cleaner:maze_seed=-1", "seed -1; a seed must not be negative"),
        ("cleaner:height=9", "height and width belong to a random maze; pass maze_seed too"),
        ("t-maze-0", "t-maze-0: the corridor needs at least one cell; try t-maze-10"),
        ("rock-sample-1-1", "rock-sample-1-1: the grid needs 2 to 100 cells on each side"),
        ("rock-sample-101-1", "rock-sample-101-1: the grid needs 2 to 100 cells on each side"),
        ("rock-sample-3-0", "rock-sample-3-0: 0 rocks on 3 x 3 cells, expected 1 to 9; try rock-sample-3-3"),
        ("rock-sample-3-10", "rock-sample-3-10: 10 rocks on 3 x 3 cells, expected 1 to 9; try rock-sample-3-3"),
        ("rock-sample-9-33", "rock-sample-9-33: 33 rocks on 9 x 9 cells, expected 1 to 32"),
    ],
)
def test_impossible_sizes(name, message):
    with pytest.raises(ValueError, match=message):
        make(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("heaven-hell-3:size=4", "heaven-hell-N has no option 'size'; its options are discount, time_limit"),
        ("heaven-hell-3:n=4", "heaven-hell-N has no option 'n'"),
        ("memory-four-rooms-7x7:height=9", "has no option 'height'; its options are actions, colours, discount"),
        ("car-flag:name=mine", "car-flag has no option 'name'"),
        ("tiger:episodic", "'episodic' is not an option; write NAME:key=value,key=value"),
        ("tiger:episodic=3", "tiger: option episodic is 3, expected bool"),
        ("tiger:time_limit=true", "tiger: option time_limit is True, expected int | None"),
        ("tiger:time_limit=ten", "tiger: option time_limit is 'ten', expected int | None"),
        ("tiger:time_limit=2.5", "tiger: option time_limit is 2.5, expected int | None"),
        ("tiger:time_limit=0", "tiger: time_limit is 0, expected a positive whole number or None"),
        ("tiger:time_limit=-3", "tiger: time_limit is -3, expected a positive whole number or None"),
        ("tiger:discount=2.0", "tiger: discount is 2.0, expected a number between 0 and 1"),
        ("cleaner:maze_seed=abc", "cleaner: option maze_seed is 'abc', expected int | None"),
        ("memory-four-rooms-7x7:actions=7", "7 actions; choose 6, or 8"),
        ("t-maze-3:time_limit=ten", "t-maze-3: time_limit is 'ten', expected a positive whole number, none or auto"),
        ("rock-sample-4-4:layout_seed=-1", "rock-sample-4-4: layout_seed -1; a seed must not be negative"),
        ("rock-sample-4-4:half_efficiency=0", "half_efficiency is 0, expected a distance above 0"),
        ("rock-sample-4-4:half_efficiency=far", "half_efficiency is 'far', expected float | int | None"),
    ],
)
def test_bad_options(name, message):
    with pytest.raises(ValueError) as caught:
        make(name)
    assert message in str(caught.value)
