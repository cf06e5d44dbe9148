"""Small random networks for every model type of transformers."""

from __future__ import annotations

import importlib
import inspect
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import shrinking
import torch
from feeding import asked_for, candidates
from torch import nn
from trial import Built, stir

FEW_PARAMETERS = 1_500_000
MOST_PARAMETERS = 12_000_000
_SECONDS = 20.0
_PLANS = (
    shrinking.named,
    shrinking.filled,
    shrinking.scaled,
    shrinking.wide_heads,
    shrinking.middle_heads,
    shrinking.lightly_scaled,
    shrinking.shallow,
    shrinking.only_shallow,
    dict,
)
_MAPPINGS = """CAUSAL_LM MASKED_LM SEQ_TO_SEQ_CAUSAL_LM IMAGE_CLASSIFICATION CTC
AUDIO_CLASSIFICATION BASE DEPTH_ESTIMATION OBJECT_DETECTION SEMANTIC_SEGMENTATION PRETRAINING
IMAGE_TEXT_TO_TEXT SPEECH_SEQ_2_SEQ BACKBONE IMAGE_TO_IMAGE VIDEO_CLASSIFICATION
TIME_SERIES_PREDICTION TEXT_TO_WAVEFORM TEXT_TO_SPECTROGRAM KEYPOINT_DETECTION
MASK_GENERATION UNIVERSAL_SEGMENTATION AUDIO_TOKENIZATION""".split()  # noqa: SIM905


def model_types() -> list[str]:
    """Every model type that the library has."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


def build(model_type: str) -> Built:
    """The first of several ways to make a small network that runs."""
    errors: list[str] = []
    end = time.process_time() + _SECONDS
    large: list[tuple[int, Any, Any]] = []
    for config, narrow in _configurations(model_type, errors):
        for kind in _classes(model_type, config):
            count = _count(kind, config, unknown=0 if narrow else MOST_PARAMETERS + 1)
            if time.process_time() > end:
                break
            if count > FEW_PARAMETERS:
                large.append((count, kind, config))
                continue
            built = _built(kind, config, errors, end)
            if built is not None:
                return built
    for count, kind, config in sorted(large, key=lambda item: item[0]):
        if count > MOST_PARAMETERS:
            errors.append(f"{kind.__name__}: {count} parameters are too many")
            break
        built = _built(kind, config, errors, end)
        if built is not None:
            return built
    if not errors:
        errors.append("no class with a forward function is made of this configuration alone")
    late = "not in time; " if time.process_time() > end else ""
    raise RuntimeError(late + " | ".join(dict.fromkeys(errors))[:380])


def _configurations(model_type: str, errors: list[str]) -> Iterator[tuple[Any, bool]]:
    """Small configurations, each once, and whether their widths are small for sure."""
    tried: set[str] = set()
    for plan in _PLANS:
        for make in (_by_construction, _by_setting):
            try:
                config = make(model_type, plan)
            except Exception as error:
                errors.append(_said(f"{plan.__name__} configuration", error))
                continue
            key = str(config)
            if key not in tried:
                tried.add(key)
                yield config, plan in _PLANS[:6]
            if make is _by_construction:
                break


def _built(kind: Any, config: Any, errors: list[str], end: float) -> Built | None:
    """A network and inputs that it runs on."""
    if time.process_time() > end:
        return None
    try:
        torch.manual_seed(0)
        model = kind(config).float()
        stir(model)
    except Exception as error:
        errors.append(_said(kind.__name__, error))
        return None
    asked: set[str] = set()
    for _ in range(3):
        before = set(asked)
        inputs = _working(model, config, errors, asked, end)
        if inputs is not None:
            return model, inputs
        if asked == before:
            break
    return None


def _working(
    model: Any, config: Any, errors: list[str], asked: set[str], end: float
) -> dict[str, Any] | None:
    """The first inputs that a network runs on; what it asks for is added to ``asked``."""
    found = list(candidates(model, config, asked=tuple(sorted(asked))))
    if not found:
        form = inspect.signature(model.forward)
        errors.append(f"{type(model).__name__}: no example inputs for {form}")
    for inputs in found:
        if time.process_time() > end:
            return None
        try:
            with torch.no_grad():
                result = model(**inputs)
        except Exception as error:
            errors.append(_said(f"{type(model).__name__}({', '.join(inputs)})", error))
            asked |= asked_for(str(error), model, inputs)
            continue
        if _has_numbers(result):
            return inputs
    return None


def _has_numbers(result: Any) -> bool:
    from weightspace.graph.graph_symmetry import _tensors

    return any(t.is_floating_point() and t.numel() for t in _tensors(result))


def _count(kind: Any, config: Any, *, unknown: int) -> int:
    """The number of parameters, found before any memory is taken."""
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in kind(config).parameters())
    except Exception:
        return unknown


def _said(where: str, error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{where}: {type(error).__name__}: {first}"[:160]


# -- configurations ------------------------------------------------------------------------

Plan = Callable[[dict[str, Any]], dict[str, Any]]
_TOLD = ("transformers_version", "architectures", "dtype", "id2label", "label2id")


def _by_construction(model_type: str, plan: Plan) -> Any:
    """A configuration made of changed fields, so that what follows from them is derived."""
    kind = _configuration(model_type)
    fields = plan(_fields(kind()))
    given = {k: v for k, v in fields.items() if k not in (*_TOLD, "model_type")}
    given["use_cache"] = False
    try:
        return kind(**given)
    except Exception:
        # Lists of one element a layer are derived if they are not given.
        short = {k: v for k, v in given.items() if not isinstance(v, (list, tuple))}
        return kind(**short)


def _by_setting(model_type: str, plan: Plan) -> Any:
    """A default configuration whose fields are overwritten."""
    config = _configuration(model_type)()
    _overwrite(config, plan(_fields(config)))
    return config


def _overwrite(config: Any, fields: dict[str, Any]) -> None:
    for key, value in fields.items():
        if key in (*_TOLD, "model_type"):
            continue
        inner = _own(config, key)
        if hasattr(inner, "model_type"):
            if isinstance(value, dict):
                _overwrite(inner, value)
            continue
        if inner != value:
            try:
                setattr(config, key, value)
            except Exception:
                continue


def _fields(config: Any) -> dict[str, Any]:
    """The fields of a configuration and of those in it."""
    result: dict[str, Any] = {}
    for key, value in config.to_dict().items():
        inner = _own(config, key)
        result[key] = _fields(inner) if hasattr(inner, "to_dict") else value
    return {k: v for k, v in result.items() if k not in _TOLD}


def _own(config: Any, key: str) -> Any:
    """A field as it is kept, not as it may differ from layer to layer."""
    try:
        return getattr(config, key, None)
    except Exception:
        return None


def _configuration(model_type: str) -> Any:
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type]


# -- classes -------------------------------------------------------------------------------


def _classes(model_type: str, config: Any) -> list[Any]:
    """Classes that a type has: those of the auto classes, then others of its modules."""
    found = list(_automatic(_configuration(model_type)))
    if getattr(config, "is_encoder_decoder", False):
        found.sort(key=lambda kind: "CausalLM" in kind.__name__ or "MaskedLM" in kind.__name__)
    return found[:4] or list(_others(_configuration(model_type)))[:4]


def _automatic(kind: Any) -> Iterator[Any]:
    from transformers.models.auto import modeling_auto

    seen = set()
    for name in _MAPPINGS:
        whole = "MODEL_MAPPING" if name == "BASE" else f"MODEL_FOR_{name}_MAPPING"
        mapping = getattr(modeling_auto, whole, None)
        try:
            model = mapping[kind] if mapping is not None else None
        except (KeyError, ImportError):
            continue
        for own in model if isinstance(model, tuple) else (model,):
            if own is not None and own not in seen:
                seen.add(own)
                yield own


def _others(kind: Any) -> Iterator[Any]:
    """Modules of the configuration's package that are made of just it, whole models first."""
    from transformers import PreTrainedModel

    package, _, own = kind.__module__.rpartition(".")
    try:
        module = importlib.import_module(f"{package}.{own.replace('configuration', 'modeling')}")
    except ImportError:
        return
    name = kind.__name__.removesuffix("Config")
    classes = [
        found
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, nn.Module) and found.forward is not nn.Module.forward
    ]
    classes.sort(key=lambda found: found.__name__ not in (name, f"{name}Model"))
    for found in classes:
        whole = issubclass(found, PreTrainedModel) and found.config_class is kind
        if whole and not re.search(r"PreTrained(Model)?$", found.__name__):
            yield found
    for found in classes:
        arguments = list(inspect.signature(found.__init__).parameters.values())[1:]
        made = bool(arguments) and arguments[0].annotation in (kind, kind.__name__)
        if made and found.__name__ in (name, f"{name}Model") and len(arguments) == 1:
            yield found
