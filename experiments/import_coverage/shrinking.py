"""Small versions of configurations of any architecture, told by the names of their fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Fields = dict[str, Any]

VOCABULARY = 120
_SPECIALS = 20

_NAMED = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "emb_dim": 32,
    "embedding_size": 32, "hidden_dim": 32, "projection_dim": 16, "intermediate_size": 48,
    "ffn_dim": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "n_inner": 48, "d_ff": 48,
    "d_kv": 8, "head_dim": 8, "moe_intermediate_size": 24, "ffn_hidden_size": 48,
    "shared_expert_intermediate_size": 24, "shared_intermediate_size": 24,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "num_kv_heads": 2, "attention_heads": 4, "decoder_hidden_size": 32,
    "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
    "encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4,
    "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 8,
    "word_embed_proj_dim": 32, "q_lora_rank": 16, "kv_lora_rank": 16, "o_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "qk_head_dim": 16,
    "index_head_dim": 16, "index_n_heads": 4, "index_topk": 4, "global_head_dim": 8,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_head_dim": 8, "linear_num_heads": 4,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "moe_num_experts": 4, "moe_topk": 2, "moe_k": 2,
    "moe_num_shared_experts": 1, "vision_embed_dim": 32, "d_embed": 32, "d_inner": 48,
    "d_head": 8, "encoder_hidden_size": 32, "mlp_dim": 48, "cross_attention_hidden_size": 32,
    "out_hidden_size": 32, "text_hidden_size": 32, "attention_hidden_size": 32,
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_num_heads": 8, "mamba_head_dim": 8,
    "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_dt_rank": 4, "ssm_state_size": 8,
    "state_size": 8, "time_step_rank": 4, "mamba_chunk_size": 16, "chunk_size": 16,
    "lru_width": 32, "rotary_dim": 4, "query_pre_attn_scalar": 8, "output_hidden_size": 32,
    "pooler_output_size": 32, "backbone_hidden_size": 32, "projector_hidden_size": 32,
    "projection_size": 32, "hidden_size_per_layer_input": 8, "decoder_intermediate_size": 48,
    "global_attn_every_n_layers": 2, "resampler_head_dim": 8, "resampler_n_heads": 4,
    "resampler_n_latents": 8, "num_query_tokens": 4, "classifier_proj_size": 16,
    "embedding_dim": 16, "vision_output_dim": 32, "moe_shared_expert_intermediate_size": 24,
    "moe_latent_size": 16, "output_dim": 32, "patch_embed_hidden_size": 32, "dim_head": 8,
    "index_topk_freq": 1, "hc_mult": 2, "num_queries": 10, "two_stage_num_proposals": 10,
    "num_denoising": 0, "context_length": 64,
}  # fmt: skip

_DEPTH = re.compile(
    r"^(num_hidden_layers|n_layers?|num_layers|layers|depth|.*_depth|num_.*layers|n_blocks"
    r"|num_.*blocks|.*_layers|.*_num_layers|num_hidden_groups|num_encoder_blocks_)$"
)
_NO_DEPTH = re.compile(
    r"feat|feature|window|sharing|kv_shared|no_rope|conv_layers|ignore|max_depth"
)
_SPARING = re.compile(r"(period|interval|frequency|sparse_step|pattern|every_n|_freq)$")
_VOCABULARY = re.compile(r"(^|_)vocab_size$|^n_vocab$|^n_tokens$|vocab_size_per_layer_input")
_BOOK = re.compile(
    r"^(codebook_size|num_embeddings|num_codevectors_per_group|semantic_codebook_size)$"
)
_POSITIONS = re.compile(
    r"^(max_position_embeddings|n_positions|max_.*positions?|n_ctx|max_seq_len)$"
)
_TOKEN = re.compile(r"(_token_ids?|token_index|_token_indices|_id)$")
_LAYER_KINDS = re.compile(
    r"(layer_types|block_types?|layers_block_type|mlp_layer_types|indexer_types)$"
)
_BLOCKS = re.compile(r"^depths?$|blocks_per_stage|num_blocks|block_repeats|_depths$")
_PER_LAYER = re.compile(
    r"layer_types|per_layer|layer_rope|sparsity_pattern|sliding_windows|no_rope_layers|intermediate_size|kv_source|gnn_layers_types|attention_layers|block_type"
)
_WIDTH = re.compile(
    r"hidden|embed|emb_|dim|_size$|channels?$|features?$|width|rank|units|inner|d_model|d_ff"
    r"|d_kv|planes|filters|proj|groups?$|ffn|stem|channel_list|_sizes$|size_per_|state_size"
)
_NO_WIDTH = re.compile(
    r"patch_|_patch|image|kernel|stride|vocab|window|batch|chunk|pos|token|ratio|factor|layers?$"
    r"|num_(heads|att|layers|chan|feat|emb|frames|hidden|hidden_layers|mel|codebook)|codebook_size|sampling_|sample_rate|downsample_rate"
    r"|hop|max_|crop|grid|mel_|_bins|pool|sliding|depth$|expansion|multiplier|act$"
    r"|dropout|resolution|tubelet|seq|roi|feat_sizes|feature_sizes|num_channels|context|kernel"
    r"|temporal|merge|pretrain|block_size|chunk|dilation|n_fft|topk|^in_channels$|^out_channels$"
    r"|^audio_channels$|dimension_out|strides|bottleneck_ratio|^input_size$"
)


_MANY = ("in_channels", "out_channels")


def named(fields: Fields) -> Fields:
    """Every width, depth and count with a usual name set to a small usual value."""
    return _tokens(_each(fields, _set_names))


_BLANKS = {
    "vocab_size": VOCABULARY, "pad_token_id": 0, "n_group": 1, "topk_group": 1, "head_dim": 8,
    "num_experts_per_tok": 2, "num_key_value_heads": 2, "moe_topk": 2, "num_experts": 4,
    "n_routed_experts": 4, "n_shared_experts": 1, "moe_intermediate_size": 24,
    "intermediate_size": 48, "image_token_id": 100, "video_token_id": 101,
    "prediction_length": 4, "context_length": 8,
}  # fmt: skip


_KINDS = {"layer_types": ("full_attention",), "mlp_layer_types": ("dense", "sparse")}


def filled(fields: Fields) -> Fields:
    """Usual names set to small values where a default leaves them open, too."""

    def fill(own: Fields) -> Fields:
        blanks = {key: value for key, value in _BLANKS.items() if own.get(key, 0) is None}
        count = own.get("num_hidden_layers")
        for key, kinds in _KINDS.items():
            if type(count) is int and own.get(key, 0) is None:
                blanks[key] = (list(kinds) * count)[:count]
        return _set_names(own) | blanks

    return _tokens(_each(fields, fill))


def wide_heads(fields: Fields) -> Fields:
    """Two heads as wide as those of large models, which some defaults take for granted."""
    return _two_heads(fields, 128)


def middle_heads(fields: Fields) -> Fields:
    """Two heads of half that width."""
    return _two_heads(fields, 64)


def _two_heads(fields: Fields, width: int) -> Fields:
    widths = {"hidden_size": 2 * width, "num_attention_heads": 2, "num_key_value_heads": 1,
              "head_dim": width}  # fmt: skip

    def widen(own: Fields) -> Fields:
        new = {k: v for k, v in widths.items() if type(own.get(k)) is int and own[k] > v}
        result = _set_names(own)
        return result | new if "num_attention_heads" in new else result

    return _tokens(_each(fields, widen))


def scaled(fields: Fields) -> Fields:
    """All widths divided by one number, so that what must match still does."""
    by = _divisor(fields)
    return _tokens(_each(fields, lambda own: _divide(own, by)))


def lightly_scaled(fields: Fields) -> Fields:
    """All widths halved, or left alone if they do not divide; few layers."""
    by = max(1, _divisor(fields) // 4)
    return _tokens(_each(fields, lambda own: _divide(own, by)))


def shallow(fields: Fields) -> Fields:
    """Few layers and words, all widths as they are."""
    return _tokens(_each(fields, lambda own: own))


def only_shallow(fields: Fields) -> Fields:
    """Few layers, all else as it is."""
    return _each(fields, lambda own: own, words=False)


def _each(fields: Fields, change: Callable[[Fields], Fields], *, words: bool = True) -> Fields:
    """Change the fields of a configuration and of every configuration in it."""
    result = {
        key: _each(value, change, words=words) if _is_configuration(key, value) else value
        for key, value in fields.items()
    }
    if "use_cache" in result:
        result["use_cache"] = False
    return change(_fewer_layers(_less(_smaller_tables(result)) if words else result))


def _is_configuration(key: str, value: Any) -> bool:
    return isinstance(value, dict) and ("model_type" in value or key.endswith("_config"))


def _numbers(fields: Fields) -> Iterator[tuple[str, int]]:
    for key, value in fields.items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield key, value


# -- depths --------------------------------------------------------------------------------


def _fewer_layers(fields: Fields) -> Fields:
    """Two layers, or as many as places are named or kinds of layers there are."""
    result = dict(fields)
    stages = {len(v) for k, v in fields.items() if _BLOCKS.search(k) and _is_list(v)}
    depths = {
        k: v
        for k, v in _numbers(fields)
        if _DEPTH.search(k) and not _NO_DEPTH.search(k) and v not in stages
    }
    longest = max(depths.values(), default=0)
    places = _place_lists(fields, longest)
    kinds = {k: v for k, v in fields.items() if _LAYER_KINDS.search(k) and _is_list(v)}
    few = 2
    for kept in places.values():
        few = max(few, len(kept))
    for value in kinds.values():
        few = max(few, len(dict.fromkeys(value)))
    for key, old in depths.items():
        result[key] = min(old, few)
    for key, kept in places.items():
        start = few - len(kept) if len(kept) < few else 0
        result[key] = [start + i for i in range(len(kept))]
    _fit_stages(result, longest, few)
    result.update(_short_lists(fields, set(places), set(depths.values()), few))
    for key, old in _numbers(fields):
        if _SPARING.search(key):
            result[key] = min(old, 2)
        if key.endswith("_offset") or key == "first_k_dense_replace":
            result[key] = min(old, 1)
        if key in ("num_kv_shared_layers", "num_nextn_predict_layers"):
            result[key] = 0
    return result


def _fit_stages(fields: Fields, longest: int, few: int) -> None:
    """The stages of a backbone without stages of its own are its layers."""
    names = fields.get("stage_names")
    if not _is_list(names) or len(names) != longest + 1 or longest <= few:
        return
    fields["stage_names"] = list(names)[: few + 1]
    for key, first in (("out_features", "stage"), ("out_indices", "")):
        own = fields.get(key)
        if _is_list(own):
            count = min(len(own), few)
            last = [few - count + 1 + i for i in range(count)]
            fields[key] = [f"{first}{i}" if first else i for i in last]


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0


def _place_lists(fields: Fields, longest: int) -> dict[str, list[int]]:
    """Lists of some layers' numbers, rising and below the depth."""
    found = {}
    for key, value in fields.items():
        if not _is_list(value) or not all(type(v) is int for v in value):
            continue
        rising = list(value) == sorted(set(value)) and len(value) < min(longest, 9)
        named_so = re.search(r"ind(ex|ice)|layers?$|layer_ids|blocks|hook_ids|idx", key)
        if rising and named_so and value[0] >= 0 and value[-1] <= longest:
            found[key] = list(value)
    return found


def _short_lists(fields: Fields, places: set[str], depths: set[int], few: int) -> Fields:
    """Lists with one element a layer; kinds of layers are all kept, each once."""
    result: Fields = {}
    for key, value in fields.items():
        if not _is_list(value) or key in places:
            continue
        if _LAYER_KINDS.search(key) and isinstance(value[0], str):
            distinct = list(dict.fromkeys(value))
            result[key] = (distinct * few)[:few]
        elif len(value) > 8 and (len(value) in depths or _PER_LAYER.search(key)):
            whole = list(value) == list(range(len(value)))
            result[key] = list(range(few)) if whole else type(value)(value[:few])
        elif _BLOCKS.search(key) and all(type(v) is int for v in value):
            result[key] = type(value)(min(v, 2) for v in value)
    return result


# -- words ---------------------------------------------------------------------------------


def _smaller_tables(fields: Fields) -> Fields:
    result = dict(fields)
    for key, old in _numbers(fields):
        if _VOCABULARY.search(key) and old > VOCABULARY:
            result[key] = VOCABULARY
        elif _BOOK.search(key):
            result[key] = min(old, 64)
        elif _POSITIONS.search(key) and not key.endswith("distance"):
            result[key] = min(old, 256)
    return result


def _tokens(fields: Fields) -> Fields:
    """Numbers of special tokens, the same ones everywhere, moved into the small vocabulary."""
    found: dict[int, int] = {}
    _look_for_tokens(fields, found)
    free = iter(range(VOCABULARY - 1, VOCABULARY - 1 - _SPECIALS, -1))
    for old in sorted(found, reverse=True):
        found[old] = next(free, 3)
    return _with_tokens(fields, found)


def _look_for_tokens(fields: Fields, found: dict[int, int]) -> None:
    for key, value in fields.items():
        if isinstance(value, dict) and _is_configuration(key, value):
            _look_for_tokens(value, found)
        elif _TOKEN.search(key):
            for token in value if _is_list(value) else [value]:
                if type(token) is int and token >= VOCABULARY - _SPECIALS:
                    found[token] = 0


def _with_tokens(fields: Fields, found: dict[int, int]) -> Fields:
    result = dict(fields)
    for key, value in fields.items():
        if isinstance(value, dict) and _is_configuration(key, value):
            result[key] = _with_tokens(value, found)
        elif _TOKEN.search(key) and type(value) is int:
            result[key] = found.get(value, value)
        elif _TOKEN.search(key) and _is_list(value):
            result[key] = [found.get(v, v) if type(v) is int else v for v in value]
    return result


# -- widths --------------------------------------------------------------------------------


def _set_names(fields: Fields) -> Fields:
    result = dict(fields)
    for key, old in _numbers(fields):
        if key in _NAMED and old > _NAMED[key]:
            result[key] = _NAMED[key]
    heads = fields.get("num_attention_heads")
    if heads is not None and fields.get("num_key_value_heads") == heads:
        result["num_key_value_heads"] = result["num_attention_heads"]
    _small_images(result)
    _fit_sections(fields, result)
    return result


def _head_width(fields: Fields) -> int:
    width, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    if type(fields.get("head_dim")) is int:
        return int(fields["head_dim"])
    return width // heads if type(width) is int and type(heads) is int and heads else 0


def _fit_sections(before: Fields, after: Fields) -> None:
    """Share the halved head among the sections of rotary positions as before."""
    old, new = _head_width(before), _head_width(after)
    for key in ("rope_parameters", "rope_scaling"):
        rope = after.get(key)
        if not isinstance(rope, dict) or not old or old == new:
            continue
        rope = dict(rope)
        for name, section in rope.items():
            if name.endswith("section") and _is_list(section):
                parts = [max(1, part * new // old) for part in section]
                parts[0] += sum(section) * new // old - sum(parts)
                rope[name] = parts
        after[key] = rope


def _small_images(fields: Fields) -> None:
    """Four patches a side, where a patch has a size."""
    size, patch = fields.get("image_size"), fields.get("patch_size")
    patch = patch if isinstance(patch, int) and patch > 4 else 16
    if isinstance(size, int) and size > 4 * patch:
        fields["image_size"] = 4 * patch
    elif _is_list(size) and all(isinstance(s, int) and s > 4 * patch for s in size):
        fields["image_size"] = [4 * patch] * len(size)


def _less(fields: Fields) -> Fields:
    """Factors of widths and depths at most one."""
    result = dict(fields)
    for key, value in fields.items():
        if isinstance(value, float) and re.search(
            r"(width|depth)_(coefficient|mult|multiplier|factor)", key
        ):
            result[key] = min(value, 0.5 if "width" in key else 1.0)
    return result


def _is_width(key: str) -> bool:
    return bool(_WIDTH.search(key)) and not _NO_WIDTH.search(key)


def _divide(fields: Fields, by: int) -> Fields:
    result = dict(fields)
    for key, value in fields.items():
        if _is_width(key) or (key in _MANY and _is_list(value)):
            result[key] = _divided(value, by)
    for key, old in _numbers(fields):
        if re.search(r"experts(_per_tok)?$|^moe_(k|topk)$|n_group|topk_group|num_queries", key):
            result[key] = min(old, _NAMED.get(key, 4))
    _fit_sections(fields, result)
    return result


def _divided(value: Any, by: int) -> Any:
    if type(value) is int:
        return value // by if value >= 2 * by and value % by == 0 else value
    if isinstance(value, (list, tuple)):
        return type(value)(_divided(v, by) for v in value)
    return value


def _divisor(fields: Fields) -> int:
    """The largest power of two that leaves every head at least four features."""
    pairs = list(_heads(fields))
    for by in (64, 32, 16, 8, 4, 2):
        if all(w % by == 0 and w // by % h == 0 and w // by // h >= 4 for w, h in pairs):
            return min(by, _bound(pairs))
    return 1


def _bound(pairs: list[tuple[int, int]]) -> int:
    """How far the narrowest width may be divided."""
    narrowest = min((w for w, _ in pairs), default=256)
    return 1 << (max(1, narrowest // 16).bit_length() - 1)


def _heads(fields: Fields) -> Iterator[tuple[int, int]]:
    """Widths with the number of heads that divides them."""
    for key, value in fields.items():
        if isinstance(value, dict) and _is_configuration(key, value):
            yield from _heads(value)
    widths = [fields.get(k) for k in ("hidden_size", "d_model", "n_embd", "embed_dim", "dim",
                                      "hidden_sizes", "embed_dims", "hidden_dim")]  # fmt: skip
    heads = [fields.get(k) for k in ("num_attention_heads", "num_heads", "n_head", "n_heads",
                                     "encoder_attention_heads",
                                     "decoder_attention_heads")]  # fmt: skip
    for width in widths:
        for head in heads:
            if type(width) is int and type(head) is int:
                yield width, head
            elif type(width) is int and _is_list(head) and type(head[0]) is int:
                yield width, head[0]
            elif _is_list(width) and _is_list(head) and len(width) == len(head):
                yield from zip(width, head, strict=True)
        if _is_list(width) and not any(_is_list(h) for h in heads):
            yield from ((w, 1) for w in width if type(w) is int)
