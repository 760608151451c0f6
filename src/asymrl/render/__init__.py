"""Pictures of worlds: the true state beside what the agent sees, as pixels, as a film or as text."""

# Importing a family teaches the functions below how to draw it.
from asymrl.render import car_flag, classics, cleaner, heaven_hell, memory_rooms, plain, shopping  # noqa: F401
from asymrl.render.dispatch import draw_view as draw_view
from asymrl.render.dispatch import draw_world as draw_world
from asymrl.render.film import save_gif as save_gif
from asymrl.render.frame import draw_frame as draw_frame
from asymrl.render.text import draw_text as draw_text
