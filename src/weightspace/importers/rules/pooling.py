"""Pooling and interpolation: channels pass, positions change."""

from __future__ import annotations

from weightspace.importers.call import Call, Result, pin, place, rule, unify
from weightspace.importers.value import Value

_LOCAL = """max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
max_pool2d_with_indices max_pool3d_with_indices max_pool1d_with_indices lp_pool2d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
_adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa
_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
fractional_max_pool2d max_unpool2d max_unpool3d"""


@rule(*_LOCAL.split())
def local(call: Call) -> Result:
    """A function of neighbourhoods, the same for every channel."""
    x = call.first
    spatial = next(n for n in (1, 2, 3) if f"{n}d" in call.name)
    if "unpool" in call.name:  # every channel is put back at places of its own
        for dim, other in zip(x.dims[:-spatial], call.tensors[1].dims[:-spatial], strict=True):
            unify(dim, other)
    results: list[Value | None] = []
    for output, shape in enumerate(call.shapes):
        assert shape is not None
        places = []
        for dim, size in zip(x.dims[-spatial:], shape[-spatial:], strict=True):
            pin(dim, "positions")
            places.append(place(size))
        results.append(call.make([*x.dims[:-spatial], *places], output=output))
    result = results[0]
    assert result is not None
    return result if len(results) == 1 else tuple(results)


@rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sample(call: Call) -> Result:
    """``y[n, c, q] = x[n, c] at grid[n, q]``: each image has its own places to be read at.

    The places may be reordered, their coordinates may not. Where heads are folded into the
    images (deformable attention), those of the features are those of the places.
    """
    x, grid = call.tensors
    for dim in (*x.dims[2:], grid.dims[-1]):
        pin(dim, "positions")
    unify(x.dims[0], grid.dims[0])
    dims = [x.dims[0], x.dims[1], *grid.dims[1:-1]]
    call.spaces.append((*dims, *x.dims[2:], grid.dims[-1]))
    return call.make(dims)
