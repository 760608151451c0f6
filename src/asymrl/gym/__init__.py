"""The worlds as Gymnasium environments. `single` runs one episode at a time, `vector` many in one compiled call."""
