"""Pictures of worlds: the true state beside what the agent sees, as pixels, as a film or as text.

Every module `draw_*.py` of this package registers how some worlds are drawn. A world of your own is drawn by its names
or numbers until you register it with `draw_world.register(MyWorld)` and `draw_view.register(MyWorld)`.
"""

import importlib
import pkgutil

from asymrl.draw.dispatch import draw_view as draw_view, draw_world as draw_world
from asymrl.draw.frame import draw_frame as draw_frame, save_gif as save_gif, save_mp4 as save_mp4
from asymrl.draw.text import draw_text as draw_text

for _module in pkgutil.iter_modules(__path__):
    if _module.name.startswith("draw_"):
        importlib.import_module(f"{__name__}.{_module.name}")
