"""Example inputs for any model of transformers, told by the names of its arguments."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

Inputs = dict[str, Any]

WORDS = 12
_MAINS = ("input_ids", "pixel_values", "input_values", "input_features", "past_values",
          "hidden_states", "inputs_embeds", "flattened_patches")  # fmt: skip


_HELPERS = """attention_mask bbox input_points image_embeddings input_features audio_values
input_values pixel_values decoder_input_features decoder_input_values decoder_inputs_embeds
image_grid_thw grid_thw past_time_features past_observed_mask future_time_features future_values
spatial_shapes pixel_attention_mask input_features_mask feature_lens position_ids
encoder_hidden_states""".split()  # noqa: SIM905


def candidates(
    model: Any, config: Any, *, asked: tuple[str, ...] = (), most: int = 40
) -> Iterator[Inputs]:
    """Sets of inputs to try, the likeliest first.

    Args:
        model: has the arguments to fill.
        config: tells their sizes.
        asked: arguments that must be there, as the model has said.
        most: how many sets.
    """
    return itertools.islice(_candidates(model, config, asked), most)


def asked_for(message: str, model: Any, given: Inputs) -> set[str]:
    """Arguments that an error names and that were not given."""
    names = set(inspect.signature(model.forward).parameters) - set(given)
    words = set(re.findall(r"[a-z_0-9]+", message.lower()))
    if re.search("specify|None|must|missing|required|make sure", message, re.IGNORECASE):
        return {n for n in words & names if n not in ("inputs_embeds", "decoder_inputs_embeds")}
    return set()


def _candidates(model: Any, config: Any, asked: tuple[str, ...]) -> Iterator[Inputs]:
    feeder = Feeder(config)
    parameters = inspect.signature(model.forward).parameters
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [n for n, p in parameters.items() if p.kind not in kinds]
    needed = [n for n in names if parameters[n].default is inspect.Parameter.empty]
    needed += [n for n in asked if n not in needed]
    main = getattr(model, "main_input_name", "input_ids")
    mains = list(main) if isinstance(main, (list, tuple)) else [main]
    needed += [m for m in mains[1:] if m in names and m not in needed]
    own = [m for m in dict.fromkeys((*mains, *_MAINS)) if m in names]
    extra: Inputs = {"use_cache": False} if "use_cache" in names else {}
    for first in own or [""]:
        for more in _companies(first, names):
            wanted = [n for n in dict.fromkeys([*needed, first, *more]) if n]
            banks = [feeder.values(name, wanted) for name in wanted]
            if not all(banks):
                continue
            longest = max(map(len, banks))
            for place in range(longest):
                values = [bank[min(place, len(bank) - 1)] for bank in banks]
                yield {**dict(zip(wanted, values, strict=True)), **extra}


def _companies(first: str, names: list[str]) -> list[list[str]]:
    """What else may be needed beside the main input."""
    decoder = ["decoder_input_ids"] if "decoder_input_ids" in names else []
    other = [m for m in ("pixel_values", "input_ids") if m in names and m != first]
    result = [decoder, [], *([m] for m in other), [*decoder, *other]]
    helpers = [n for n in _HELPERS if n in names and n != first]
    result += [[n] for n in helpers]
    result += [[*decoder, n] for n in helpers if decoder]
    return [list(own) for own in dict.fromkeys(map(tuple, result))]


class Feeder:
    """Values for arguments by name, of the sizes that a configuration tells."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.generator = torch.Generator().manual_seed(1)

    def values(self, name: str, wanted: list[str]) -> list[Any]:
        """Some values for an argument; none if nothing is known of it."""
        for pattern, make in _BANK:
            if re.search(pattern, name):
                return list(make(self, wanted))
        return []

    def normal(self, *shape: int) -> Tensor:
        """Random numbers."""
        return torch.randn(*shape, generator=self.generator)

    def ids(self, length: int = WORDS) -> Tensor:
        """Words that are no special tokens."""
        vocabulary = self.find("vocab_size", "n_vocab", default=100)
        top = max(6, min(vocabulary, 100) - 5)
        return torch.randint(min(5, top - 1), top, (1, length), generator=self.generator)

    def find(self, *names: str, default: int) -> int:
        """The first of some fields that the configuration or a part of it has."""
        for name in names:
            found = _search(self.config, name)
            if isinstance(found, (list, tuple)) and found and isinstance(found[0], int):
                return found[0]
            if isinstance(found, int) and not isinstance(found, bool) and found > 0:
                return found
        return default

    @property
    def patch(self) -> int:
        """The side of a patch."""
        return self.find("patch_size", "spatial_patch_size", default=16)

    @property
    def channels(self) -> int:
        """The channels of images."""
        return self.find("num_channels", "in_channels", "in_chans", default=3)

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.find("hidden_size", "d_model", "embed_dim", "n_embd", "hidden_dim", default=32)


def _search(config: Any, name: str, depth: int = 0) -> Any:
    if getattr(config, name, None) is not None:
        return getattr(config, name)
    if depth < 3:
        for inner in vars(config).values():
            if hasattr(inner, "model_type"):
                found = _search(inner, name, depth + 1)
                if found is not None:
                    return found
    return None


def _images(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    channels, patch = feeder.channels, feeder.patch
    size = feeder.find("image_size", "img_size", "input_size", default=64)
    packed = channels * patch**2
    temporal = feeder.find("temporal_patch_size", default=1)
    if any("grid" in name or "spatial_shapes" in name for name in wanted):
        yield feeder.normal(16, packed * temporal)
        yield feeder.normal(16, channels, patch, patch)
        yield feeder.normal(1, 16, packed)
    if size <= 512:
        yield feeder.normal(1, channels, size, size)
    yield feeder.normal(1, channels, 64, 64)
    if size <= 224:
        yield feeder.normal(1, feeder.find("num_frames", default=4), channels, size, size)
        yield feeder.normal(1, 2, channels, size, size)
        yield feeder.normal(1, channels, 2 * temporal, size, size)
    yield feeder.normal(1, 3, 224, 224)
    yield feeder.normal(1, 16, packed)
    yield feeder.normal(1, 2, 16, packed)
    yield feeder.normal(1, 3, 128, 128)
    yield feeder.normal(1, 1, 64, 64)
    yield feeder.normal(1, 3, 48, 160)
    if size > 512:
        yield feeder.normal(1, channels, size, size)


def _sounds(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    mels = feeder.find("num_mel_bins", "model_in_dim", "feature_size", default=80)
    length = feeder.find("max_length", default=1024)
    yield feeder.normal(1, 4000)
    yield feeder.normal(1, 1, 4000)
    yield feeder.normal(1, min(length, 1024), mels)
    yield feeder.normal(1, 64, mels)
    yield feeder.normal(1, 1, 64, 64)
    yield feeder.normal(1, 1, 16000)
    yield feeder.normal(1, 16000)


def _spectra(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    mels = feeder.find("num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel",
                       "feature_projection_input_dim", "input_dim", "mel_dim",
                       default=80)  # fmt: skip
    positions = feeder.find("max_source_positions", default=1500)
    yield feeder.normal(1, 64, mels)
    yield feeder.normal(1, mels, 2 * positions)
    yield feeder.normal(1, mels, 64)
    yield feeder.normal(1, 1, 1001, 64)
    yield feeder.normal(1, 64, feeder.find("feature_projection_input_dim", default=160))
    yield feeder.normal(1, 64, feeder.find("input_dim", "input_size", default=160))
    yield feeder.normal(1, 1, 64, mels)
    yield feeder.normal(1, mels, 3000)
    yield feeder.normal(mels, 64)


def _states(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    channels, patch = feeder.channels, feeder.patch
    if any("grid" in name for name in wanted):
        temporal = feeder.find("temporal_patch_size", default=1)
        yield feeder.normal(16, channels * temporal * patch**2)
        yield feeder.normal(16, channels * patch**2)
        yield feeder.normal(16, feeder.width)
    yield feeder.normal(1, WORDS, feeder.width)
    yield feeder.normal(1, feeder.width, 16)
    yield feeder.normal(1, feeder.width, 8, 8)
    yield feeder.normal(1, WORDS, feeder.find("input_size", "input_dim", default=feeder.width))
    yield feeder.normal(WORDS, feeder.width)


def _encoder_states(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    for name in ("encoder_hidden_size", "cross_attention_hidden_size", "hidden_size"):
        yield feeder.normal(1, WORDS, feeder.find(name, default=feeder.width))


def _grid(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del feeder, wanted
    yield torch.tensor([[1, 4, 4]])


def _map(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    side = feeder.find("image_embedding_size", default=8)
    yield feeder.normal(1, feeder.width, side, side)
    yield feeder.normal(1, feeder.width, 4, 4)


def _sparse(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    yield feeder.normal(1, 1, 2, feeder.width)


def _series(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    length = feeder.find("context_length", default=32)
    channels = feeder.find("num_input_channels", "num_channels", default=1)
    lags = getattr(feeder.config, "lags_sequence", None) or [0]
    past = length + max(lags)
    yield feeder.normal(1, length, channels)
    yield feeder.normal(1, length)
    yield feeder.normal(1, past)
    yield feeder.normal(1, 1, length)


def _boxes(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del feeder, wanted
    corners = torch.arange(WORDS)
    yield torch.stack([corners, corners, corners + 5, corners + 7], dim=-1)[None]


def _ones(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del feeder, wanted
    yield torch.ones(1, WORDS, dtype=torch.long)
    yield torch.ones(1, 64, dtype=torch.long)
    yield torch.ones(1, 16, dtype=torch.long)
    yield torch.ones(1, 64, dtype=torch.bool)


def _flat_patches(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    patches = feeder.normal(1, 16, 2 + feeder.channels * feeder.patch**2)
    patches[..., :2] = torch.tensor([[1 + i // 4, 1 + i % 4] for i in range(16)])
    yield patches


def _pixel_mask(feeder: Feeder, wanted: list[str]) -> Iterator[Tensor]:
    del wanted
    size = feeder.find("image_size", default=64)
    yield torch.ones(1, 16, dtype=torch.long)
    yield torch.ones(1, size, size, dtype=torch.long)
    yield torch.ones(1, 1, 4, 4, dtype=torch.bool)


def _one_time(feeder: Feeder, wanted: list[str]) -> Iterator[Any]:
    del feeder, wanted
    yield torch.tensor([0.5])
    yield torch.tensor([3])


_BANK: tuple[tuple[str, Any], ...] = (
    (
        r"input_ids$|^labels_?ids$|_ids_from|^codes$|token_ids",
        lambda f, w: [f.ids(8)] if any("pixel" in n for n in w) else [f.ids(), f.ids()[:, :8]],
    ),
    (r"^decoder_input_ids$", lambda f, w: [f.ids(8)]),
    (r"flattened_patches", _flat_patches),
    (r"grid_thw$|grid_hws?$|target_sizes|image_sizes_grid", _grid),
    (r"spatial_shapes|tgt_sizes", lambda f, w: [torch.tensor([[4, 4]])]),
    (r"merge_sizes", lambda f, w: [torch.tensor([1])]),
    (r"pixel_(attention_)?mask|patch_attention_mask|padding_mask", _pixel_mask),
    (r"^pixel_values|^images?$|^video|^pixel", _images),
    (
        r"^(input|audio|decoder_input|semantic_input|acoustic_input)_values$|^audio$|^waveform",
        _sounds,
    ),
    (
        r"features_mask|feature_attention_mask",
        lambda f, w: [torch.ones(1, 64, dtype=torch.bool), torch.ones(1, 64, dtype=torch.long)],
    ),
    (r"feature_lens|aftercnn_lens|lengths?$", lambda f, w: [torch.tensor([64])]),
    (r"^(input|audio)_features$|spectrogram|mel", _spectra),
    (r"^past_values$|^time_series", _series),
    (r"observed_mask", lambda f, w: [torch.ones_like(v) for v in _series(f, w)]),
    (
        r"time_features",
        lambda f, w: [
            f.normal(*v.shape[:2], f.find("num_time_features", default=0)) for v in _series(f, w)
        ],
    ),
    (r"^input_points$", lambda f, w: [torch.rand(1, 1, 2, 2, generator=f.generator) * 32]),
    (r"^input_labels$", lambda f, w: [torch.ones(1, 1, 2, dtype=torch.long)]),
    (r"^input_boxes$", lambda f, w: [torch.tensor([[[4.0, 4.0, 30.0, 28.0]]])]),
    (
        r"^input_masks$",
        lambda f, w: [
            f.normal(
                1,
                1,
                4 * f.find("image_embedding_size", default=16),
                4 * f.find("image_embedding_size", default=16),
            )
        ],
    ),
    (r"^visual_feats$", lambda f, w: [f.normal(1, 4, f.find("visual_feat_dim", default=32))]),
    (r"^visual_pos$", lambda f, w: [f.normal(1, 4, 4)]),
    (r"aspect_ratio_ids", lambda f, w: [torch.ones(1, 1, dtype=torch.long)]),
    (r"aspect_ratio_mask", lambda f, w: [torch.ones(1, 1, 4, dtype=torch.long)]),
    (r"^image_bbox$", lambda f, w: [torch.zeros(1, 4, 4, dtype=torch.long)]),
    (r"^bbox$|boxes$", _boxes),
    (
        r"position_embeddings$",
        lambda f, w: [(f.normal(1, WORDS, f.find("head_dim", default=8)),) * 2],
    ),
    (r"position_ids$|cache_position", lambda f, w: [torch.arange(WORDS)[None]]),
    (
        r"encoder_(hidden_states|outputs)|vision_hidden|cross_attention_states|qformer_states",
        _encoder_states,
    ),
    (r"sparse_(prompt_)?embeddings", _sparse),
    (
        r"image_embeddings?$|positional_embeddings$|dense_(prompt_)?embeddings|fpn|feature_maps?$",
        _map,
    ),
    (
        r"high_resolution_features|high_res",
        lambda f, w: [[f.normal(1, f.width // 8, 32, 32), f.normal(1, f.width // 4, 16, 16)]],
    ),
    (r"multimask_output|^return_|^output_", lambda f, w: [False]),
    (r"attention_mask$|^mask$|_mask$", _ones),
    (
        r"query_embeds|hidden_states?$|embeds?$|embeddings?$|^x$|^inputs?$|features?$|^context$|^query|latents$",
        _states,
    ),
    (r"time_?steps?$|^t$|noise", _one_time),
    (r"^(gather_)?lens?$|num_", lambda f, w: [1]),
)


def area(values: Inputs) -> int:
    """How many numbers some inputs have."""
    return sum(math.prod(v.shape) for v in values.values() if isinstance(v, Tensor))
