"""Small random networks for every model type of transformers."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from trial import Built, stir

_WIDTHS = {
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embed_dim": 32,
    "embedding_size": 32,
    "projection_dim": 16,
    "intermediate_size": 48,
    "ffn_dim": 48,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "n_inner": 48,
    "d_ff": 48,
    "d_kv": 8,
    "head_dim": 8,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_kv_heads": 2,
    "attention_heads": 4,
    "decoder_hidden_size": 32,
    "word_embed_proj_dim": 32,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "qk_head_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_num_experts": 4,
    "moe_topk": 2,
    "vision_embed_dim": 32,
    "conv_dim_": 32,
    "d_embed": 32,
    "d_inner": 48,
    "d_head": 8,
    "encoder_hidden_size": 32,
    "mlp_dim": 48,
    "cross_attention_hidden_size": 32,
    "out_hidden_size": 32,
}
_DEPTHS = {
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "depth": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "decoder_num_hidden_layers": 2,
    "encoder_num_hidden_layers": 2,
    "num_decoder_blocks": 2,
    "num_hidden_groups": 1,
}
_COMMON = {
    "vocab_size": 120,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size": 64,
    "max_position_embeddings": 256,
    "layerdrop": 0.0,
}


def model_types() -> list[str]:
    """Every model type that the library has."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


def build(model_type: str) -> Built:
    """The first of several ways to make a small network that runs."""
    errors: list[str] = []
    for make in (_small, _narrow_text, _shallow, _default_but_shallow):
        for auto in _classes(model_type):
            try:
                torch.manual_seed(0)
                config = make(model_type)
                model = auto(config).float()
                stir(model)
                inputs = _working_inputs(model, config, errors)
                if inputs is not None:
                    return model, inputs
            except Exception as error:
                errors.append(f"{make.__name__}: {type(error).__name__}: {error}"[:160])
    raise RuntimeError(" | ".join(dict.fromkeys(errors))[:380])


def _classes(model_type: str) -> list[Any]:
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    kind = CONFIG_MAPPING[model_type]
    found = []
    for name in (
        "MODEL_FOR_CAUSAL_LM_MAPPING",
        "MODEL_FOR_MASKED_LM_MAPPING",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
        "MODEL_FOR_CTC_MAPPING",
        "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING",
        "MODEL_MAPPING",
        "MODEL_FOR_DEPTH_ESTIMATION_MAPPING",
        "MODEL_FOR_OBJECT_DETECTION_MAPPING",
        "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING",
        "MODEL_FOR_PRETRAINING_MAPPING",
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
        "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
        "MODEL_FOR_BACKBONE_MAPPING",
        "MODEL_FOR_IMAGE_TO_IMAGE_MAPPING",
    ):
        mapping = getattr(modeling_auto, name, None)
        if mapping is None:
            continue
        try:
            model = mapping[kind]
        except KeyError:
            continue
        found.extend(model if isinstance(model, tuple) else (model,))
    return list(dict.fromkeys(found))[:3]


def _set(config: Any, values: dict[str, Any]) -> Any:
    for key, value in values.items():
        old = getattr(config, key, None)
        if old is None or isinstance(old, (list, tuple, dict)) or callable(old):
            continue
        number = isinstance(old, int | float) and not isinstance(old, bool)
        if isinstance(value, int) and number and 0 <= old < value and key not in _COMMON:
            continue
        try:
            setattr(config, key, value)
        except Exception:
            continue
    for name, inner in list(vars(config).items()):
        if hasattr(inner, "to_dict") and hasattr(inner, "model_type") and inner is not config:
            _set(inner, values)
            del name
    for key in ("layer_types", "mlp_layer_types"):
        layers = getattr(config, key, None)
        if isinstance(layers, list) and getattr(config, "num_hidden_layers", None):
            setattr(config, key, layers[: config.num_hidden_layers])
    return config


def _fresh(model_type: str) -> Any:
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type]()


def _small(model_type: str) -> Any:
    return _set(_fresh(model_type), _WIDTHS | _DEPTHS | _COMMON)


def _narrow_text(model_type: str) -> Any:
    widths = {
        k: v for k, v in _WIDTHS.items() if k not in ("head_dim", "dim", "embed_dim", "num_heads")
    }
    return _set(_fresh(model_type), widths | _DEPTHS | {**_COMMON, "image_size": 224})


def _shallow(model_type: str) -> Any:
    return _set(
        _fresh(model_type),
        _DEPTHS
        | {
            "vocab_size": 120,
            "use_cache": False,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    )


def _default_but_shallow(model_type: str) -> Any:
    return _set(_fresh(model_type), {"use_cache": False, "num_hidden_layers": 2})


def _working_inputs(model: Any, config: Any, errors: list[str]) -> dict[str, Any] | None:
    """The first set of inputs that the network runs on."""
    for inputs in _candidates(model, config):
        try:
            with torch.no_grad():
                model(**inputs)
        except Exception as error:
            errors.append(f"forward({', '.join(inputs)}): {type(error).__name__}: {error}"[:160])
            continue
        return inputs
    return None


def _candidates(model: Any, config: Any) -> list[dict[str, Any]]:
    names = set(inspect.signature(model.forward).parameters)
    generator = torch.Generator().manual_seed(1)
    vocab = max(20, min(_find(config, "vocab_size", 100), 100))
    ids = torch.randint(5, vocab - 5, (1, 12), generator=generator)
    size = _find(config, "image_size", 224)
    size = size if isinstance(size, int) else size[0]
    channels = _find(config, "num_channels", 3) or 3
    images = torch.randn(1, channels, size, size, generator=generator)
    mels = _find(config, "num_mel_bins", 80) or 80
    bank: dict[str, list[Any]] = {
        "input_ids": [ids],
        "pixel_values": [
            images,
            torch.randn(1, 4, channels, size, size, generator=generator),
            torch.randn(1, 3, 224, 224, generator=generator),
            torch.randn(1, 3, 64, 64, generator=generator),
        ],
        "input_values": [
            torch.randn(1, 4000, generator=generator),
            torch.randn(1, 64, 64, generator=generator),
            torch.randn(1, 1024, 128, generator=generator),
            torch.randn(1, 1, 2000, generator=generator),
        ],
        "input_features": [
            torch.randn(1, 64, mels, generator=generator),
            torch.randn(1, mels, 3000, generator=generator),
            torch.randn(1, mels, 128, generator=generator),
        ],
        "decoder_input_ids": [ids[:, :8]],
        "past_values": [
            torch.randn(1, _find(config, "context_length", 32) or 32, channels, generator=generator)
        ],
    }
    extra = {"use_cache": False} if "use_cache" in names else {}
    seq2seq = {"decoder_input_ids": ids[:, :8]} if "decoder_input_ids" in names else {}
    mains = [
        getattr(model, "main_input_name", "input_ids"),
        "input_ids",
        "pixel_values",
        "input_values",
        "input_features",
        "past_values",
    ]
    result: list[dict[str, Any]] = []
    for main in dict.fromkeys(mains):
        if main in names or main == mains[0]:
            for value in bank.get(main, []):
                result.append({main: value, **seq2seq, **extra})
                if main == "input_ids" and "pixel_values" in names:
                    result.append({main: value, "pixel_values": images, **extra})
                if main == "pixel_values" and "input_ids" in names:
                    result.append({"input_ids": ids, main: value, **extra})
    return result


def _find(config: Any, key: str, default: Any) -> Any:
    if getattr(config, key, None) is not None:
        return getattr(config, key)
    for inner in vars(config).values():
        if hasattr(inner, "model_type") and getattr(inner, key, None) is not None:
            return getattr(inner, key)
    return default
