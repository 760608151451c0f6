"""Networks in few bits, to inspect and use but not to train: large arrays as whole numbers and scales.

A weight is `code * scale`: a whole number of a few bits, and one scale for each column of its array. Small arrays stay
in half precision. `restored` makes all of them float32 again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float16, Float32, UInt8

from asymrl.runs.saved_runs import SavedRuns

SMALL, LARGE = 4096, 200_000  # entries: arrays up to SMALL stay in half precision; from LARGE on, errors average out
BITS, BITS_OF_LARGE = 6, 4
CODES, SCALE = ":codes", ":scale"  # name suffixes of the two parts; the number of bits follows CODES
SHRINKAGES = np.linspace(0.6, 1.0, 17)  # shares of a column's range to try: clipping a few weights may pay


def rounded_networks(saved: SavedRuns) -> SavedRuns:
    """Saved runs with their actors and critics in about six bits per weight."""
    arrays: dict[str, np.ndarray] = {}
    for name, array in saved.arrays.items():
        if not is_network(name) or not np.issubdtype(array.dtype, np.floating):
            arrays[name] = array
        elif array.ndim < 3 or array[0].size <= SMALL:  # [run, ...]
            arrays[name] = array.astype(np.float16)
        else:
            bits = BITS if array[0].size < LARGE else BITS_OF_LARGE
            codes, scale = encode(array.astype(np.float32), bits)
            arrays |= {f"{name}{CODES}{bits}": codes, f"{name}{SCALE}": scale}
    return saved._replace(arrays=arrays)


def restored(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All networks in single precision.

    Raises:
        ValueError: naming an array that is not part of a rounded network.
    """
    whole: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        base, is_code, bits = name.partition(CODES)
        if is_code:
            if not bits.isdecimal() or not 2 <= int(bits) <= 8 or (scale := arrays.get(base + SCALE)) is None:
                raise ValueError(f"array {name} is not a part of a rounded network")
            try:
                whole[base] = decode(array, scale, int(bits))
            except ValueError as error:
                raise ValueError(f"array {name} does not fit its scales: {error}") from error
        elif not name.endswith(SCALE):
            whole[name] = array.astype(np.float32) if is_network(name) and array.dtype == np.float16 else array
    return whole


def is_network(name: str) -> bool:
    return name.startswith(("actor.", "critic."))


def encode(
    array: Float32[np.ndarray, "... rows columns"], bits: int
) -> tuple[UInt8[np.ndarray, "... rows bytes"], Float16[np.ndarray, "... columns"]]:
    """Codes of the entries, the bits of a row packed into bytes, and for each column the scale with the least error."""
    largest = 2 ** (bits - 1) - 1
    range_ = np.abs(array).max(-2, keepdims=True)
    best, least = np.ones_like(range_), np.full_like(range_, np.inf)
    for shrinkage in SHRINKAGES:
        scale = _scale(range_ * shrinkage / largest)
        error = np.square(array - scale * _codes(array, scale, largest)).sum(-2, keepdims=True)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    codes = (_codes(array, best, largest) + largest).astype(np.uint8)
    each = np.unpackbits(codes[..., None], axis=-1)[..., 8 - bits :]
    return np.packbits(each.reshape(*codes.shape[:-1], -1), axis=-1), best[..., 0, :].astype(np.float16)


def decode(
    codes: UInt8[np.ndarray, "... rows bytes"], scale: Float16[np.ndarray, "... columns"], bits: int
) -> Float32[np.ndarray, "... rows columns"]:
    """The inverse of `encode`, up to rounding."""
    columns = scale.shape[-1]
    if codes.dtype != np.uint8 or codes.ndim < 2 or codes.shape[-1] != -(-columns * bits // 8):
        raise ValueError(f"{codes.dtype}{list(codes.shape)} are not {bits} bits for each of {columns} columns")
    each = np.unpackbits(codes, axis=-1)[..., : columns * bits].reshape(*codes.shape[:-1], columns, bits)
    whole = each @ (2 ** np.arange(bits)[::-1]).astype(np.float32)
    return ((whole - (2 ** (bits - 1) - 1)) * scale.astype(np.float32)[..., None, :]).astype(np.float32)


def _scale(scale: np.ndarray) -> np.ndarray:
    """Scales that half precision can express; not zero."""
    return np.maximum(scale.astype(np.float16), np.finfo(np.float16).tiny).astype(np.float32)


def _codes(array: np.ndarray, scale: np.ndarray, largest: int) -> np.ndarray:
    return np.clip(np.rint(array / scale), -largest, largest)
