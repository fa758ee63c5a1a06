"""Weights in Hugging Face's layouts of GPT-2, BERT and Llama: read from safetensors, and written back.

A layout is a table of rules: our key, the keys it is made of, and whether those are stored transposed (GPT-2's Conv1D).
Files are read without other libraries, in float32, float16 or bfloat16; weights become float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save_file

from tinygrad_lite import nn
from tinygrad_lite.errors import UserError
from tinygrad_lite.models.encoder import Encoder, EncoderConfig, MaskedLM
from tinygrad_lite.models.gpt import GPT, GPTConfig
from tinygrad_lite.models.llama import Llama, LlamaConfig

Arrays = dict[str, np.ndarray[Any, Any]]


class Rule(NamedTuple):
    """Our key, and theirs, whose arrays one after the other along the first axis make ours; "{i}" is the layer."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    optional: bool = False  # may be missing: a tied output matrix


def _pairs(ours: str, theirs: str, transposed: bool = False) -> list[Rule]:
    """Rules for weight and bias; only weights are ever transposed."""
    return [
        Rule(f"{ours}.weight", (f"{theirs}.weight",), transposed),
        Rule(f"{ours}.bias", (f"{theirs}.bias",)),
    ]


class Layout(NamedTuple):
    """How one kind of model is stored: rules, prefixes its keys may lack, endings of keys that hold no weights."""

    rules: tuple[Rule, ...]
    prefix: str
    ignored: tuple[str, ...]
    layers: Callable[[Any], int]

    def of_layers(self, model: nn.Module) -> Iterator[Rule]:
        """The rules of every layer the model has."""
        for rule in self.rules:
            indices = range(self.layers(model.config)) if "{i}" in rule.ours else (0,)
            for i in indices:
                yield rule._replace(ours=rule.ours.format(i=i), theirs=tuple(key.format(i=i) for key in rule.theirs))

    def expanded(self, model: nn.Module) -> Iterator[Rule]:
        """Those of them for keys the model has."""
        own = model.state_dict()
        return (rule for rule in self.of_layers(model) if rule.ours in own)


GPT2 = Layout(
    (
        Rule("wte.weight", ("transformer.wte.weight",)),
        Rule("wpe.weight", ("transformer.wpe.weight",)),
        *_pairs("blocks.{i}.ln_1", "transformer.h.{i}.ln_1"),
        *_pairs("blocks.{i}.attn.qkv", "transformer.h.{i}.attn.c_attn", True),
        *_pairs("blocks.{i}.attn.proj", "transformer.h.{i}.attn.c_proj", True),
        *_pairs("blocks.{i}.ln_2", "transformer.h.{i}.ln_2"),
        *_pairs("blocks.{i}.mlp.fc", "transformer.h.{i}.mlp.c_fc", True),
        *_pairs("blocks.{i}.mlp.proj", "transformer.h.{i}.mlp.c_proj", True),
        *_pairs("ln_f", "transformer.ln_f"),
        Rule("head.weight", ("lm_head.weight",), optional=True),
    ),
    "transformer.",
    (".attn.bias", ".attn.masked_bias"),
    lambda config: config.n_layer,
)

_UNUSED = ("pooler.dense", "cls.seq_relationship")
_SELF = "bert.encoder.layer.{i}.attention.self"
BERT = Layout(
    (
        Rule("encoder.tokens.weight", ("bert.embeddings.word_embeddings.weight",)),
        Rule("encoder.positions.weight", ("bert.embeddings.position_embeddings.weight",)),
        Rule("encoder.types.weight", ("bert.embeddings.token_type_embeddings.weight",)),
        *_pairs("encoder.norm", "bert.embeddings.LayerNorm"),
        *(
            Rule(
                f"encoder.stack.layers.{{i}}.self_attn.in_proj_{part}",
                tuple(f"{_SELF}.{name}.{part}" for name in ("query", "key", "value")),
            )
            for part in ("weight", "bias")
        ),
        *_pairs("encoder.stack.layers.{i}.self_attn.out_proj", "bert.encoder.layer.{i}.attention.output.dense"),
        *_pairs("encoder.stack.layers.{i}.norm1", "bert.encoder.layer.{i}.attention.output.LayerNorm"),
        *_pairs("encoder.stack.layers.{i}.linear1", "bert.encoder.layer.{i}.intermediate.dense"),
        *_pairs("encoder.stack.layers.{i}.linear2", "bert.encoder.layer.{i}.output.dense"),
        *_pairs("encoder.stack.layers.{i}.norm2", "bert.encoder.layer.{i}.output.LayerNorm"),
        *_pairs("transform", "cls.predictions.transform.dense"),
        *_pairs("norm", "cls.predictions.transform.LayerNorm"),
        Rule("head.bias", ("cls.predictions.bias",)),
        Rule("head.weight", ("cls.predictions.decoder.weight",), optional=True),
    ),
    "bert.",
    (".position_ids", "predictions.decoder.bias", *(f"{n}.{p}" for n in _UNUSED for p in ("weight", "bias"))),
    lambda config: config.layers,
)
# a file of the encoder alone, without the masked-language head
BERT_ENCODER = BERT._replace(
    rules=tuple(r._replace(ours=r.ours[8:]) for r in BERT.rules if r.ours.startswith("encoder."))
)

_LAYER = "layers.{i}."
LLAMA = Layout(
    (
        Rule("embed_tokens.weight", ("model.embed_tokens.weight",)),
        *(
            Rule(f"{_LAYER}{name}.weight", (f"model.{_LAYER}{name}.weight",))
            for name in (
                *(f"self_attn.{part}_proj" for part in "qkvo"),
                *(f"self_attn.{part}_norm" for part in "qk"),
                *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
                "input_layernorm",
                "post_attention_layernorm",
            )
        ),
        Rule("norm.weight", ("model.norm.weight",)),
        Rule("lm_head.weight", ("lm_head.weight",), optional=True),
    ),
    "model.",
    ("rotary_emb.inv_freq",),
    lambda config: config.n_layer,
)


# ---- states -----------------------------------------------------------------------------------------------


def load_state(model: nn.Module, layout: Layout, state: Mapping[str, Any]) -> None:
    """Put a stored state into a model, all of it or nothing.

    Raises:
        RuntimeError: names every missing, unexpected and mis-shaped key, as it is stored.
    """
    given = _named(layout, state)
    own, found, problems = model.state_dict(), {}, []
    rules = list(layout.expanded(model))
    used = {key for rule in rules for key in rule.theirs}
    unexpected = [key for key in given if key not in used and not key.endswith(layout.ignored)]
    missing = [key for rule in rules if not rule.optional for key in rule.theirs if key not in given]
    for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
        if keys:
            problems.append(f"{kind} key(s): {', '.join(keys)}.")
    for rule in rules:
        if all(key in given for key in rule.theirs):
            parts = [np.asarray(given[key], np.float32) for key in rule.theirs]
            shape = _stored_shape(rule, tuple(own[rule.ours].shape))
            problems += [
                f"size mismatch for {key}: stored {list(part.shape)}, the model needs {list(shape)}."
                for key, part in zip(rule.theirs, parts, strict=True)
                if part.shape != shape
            ]
            found[rule.ours] = np.concatenate([part.T if rule.transposed else part for part in parts])
    if problems:
        lines = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in loading weights for {type(model).__name__}:\n\t{lines}")
    model.load_state_dict(found, strict=False)


def _stored_shape(rule: Rule, shape: tuple[int, ...]) -> tuple[int, ...]:
    shape = (shape[0] // len(rule.theirs), *shape[1:])
    return shape[::-1] if rule.transposed else shape


def _named(layout: Layout, state: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with the prefix that files of the bare model leave out, and norms' old names replaced."""
    heads = {rule.theirs[0].partition(".")[0] for rule in layout.rules} | {layout.prefix[:-1]}
    named = {}
    for key, value in state.items():
        key = key.removesuffix("gamma") + "weight" if key.endswith("LayerNorm.gamma") else key
        key = key.removesuffix("beta") + "bias" if key.endswith("LayerNorm.beta") else key
        named[key if key.partition(".")[0] in heads else layout.prefix + key] = value
    return named


def stored_state(model: nn.Module, layout: Layout) -> Arrays:
    """A model's state as it is stored; tied output matrices are left out, biases a model lacks are zeros."""
    own, found = model.state_dict(keep_vars=True), {}
    tied = {id(value) for key, value in own.items() if not key.startswith(("head.", "lm_head."))}
    for rule in layout.expanded(model):
        if rule.optional and id(own[rule.ours]) in tied:
            continue
        value = own[rule.ours].detach().numpy()
        for key, part in zip(rule.theirs, np.split(value, len(rule.theirs)), strict=True):
            found[key] = np.ascontiguousarray(part.T if rule.transposed else part)
    for rule in layout.of_layers(model):
        if rule.ours.endswith("bias") and rule.ours not in own:  # their layers always have one
            (key,) = rule.theirs
            found[key] = np.zeros(found[key.removesuffix("bias") + "weight"].shape[-1], np.float32)
    return found


# ---- configurations ---------------------------------------------------------------------------------------

_GELU = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}


def _fields(config: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Fields by our names. UserError where one is missing."""
    missing = [theirs for theirs in names.values() if theirs not in config]
    if missing:
        raise UserError(f"the configuration lacks {', '.join(missing)}")
    return {ours: config[theirs] for ours, theirs in names.items()}


def _only(config: Mapping[str, Any], **expected: Any) -> None:
    """UserError where a field has a value that is not implemented."""
    for name, value in expected.items():
        allowed = value if isinstance(value, tuple) else (value,)
        if name in config and config[name] not in allowed:
            raise UserError(f"{name} {config[name]!r} of the configuration is not implemented, only {value!r}")


def _gpt2(config: Mapping[str, Any]) -> GPT:
    _only(config, activation_function=tuple(_GELU), layer_norm_epsilon=1e-5, scale_attn_by_inverse_layer_idx=False)
    _only(config, scale_attn_weights=True, add_cross_attention=False, n_inner=(None, 4 * config.get("n_embd", 0)))
    sizes = _fields(config, vocab_size="vocab_size", block_size="n_positions", n_layer="n_layer", n_head="n_head")
    width = _fields(config, n_embd="n_embd")
    gelu = _GELU[config.get("activation_function", "gelu_new")]
    options = {"dropout": config.get("resid_pdrop", 0.1), "tied": config.get("tie_word_embeddings", True)}
    return GPT(GPTConfig(**sizes, **width, **options, gelu=gelu))


def _gpt2_config(c: GPTConfig) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": c.vocab_size,
        "n_positions": c.block_size,
        "n_layer": c.n_layer,
        "n_head": c.n_head,
        "n_embd": c.n_embd,
        "activation_function": "gelu_new" if c.gelu == "tanh" else "gelu",
        **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), c.dropout),
        "tie_word_embeddings": c.tied,
    }


def _bert(config: Mapping[str, Any]) -> MaskedLM:
    _only(config, hidden_act="gelu", position_embedding_type="absolute", tie_word_embeddings=True)
    _only(config, is_decoder=False, add_cross_attention=False)
    sizes = _fields(
        config,
        vocab_size="vocab_size",
        max_len="max_position_embeddings",
        layers="num_hidden_layers",
        heads="num_attention_heads",
        width="hidden_size",
        d_ff="intermediate_size",
    )
    eps, pad = config.get("layer_norm_eps", 1e-12), config.get("pad_token_id", 0)
    options = {"types": config.get("type_vocab_size", 2), "dropout": config.get("hidden_dropout_prob", 0.1)}
    return MaskedLM(EncoderConfig(**sizes, **options, eps=eps, pad=pad))


def _bert_config(c: EncoderConfig) -> dict[str, Any]:
    if c.norm != "post":
        raise UserError(f"Hugging Face's BERT normalises behind its branches, this model is {c.norm}-norm")
    return {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "vocab_size": c.vocab_size,
        "max_position_embeddings": c.max_len,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "hidden_size": c.width,
        "intermediate_size": c.d_ff,
        "type_vocab_size": c.types,
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.dropout,
        "layer_norm_eps": c.eps,
        "pad_token_id": c.pad,
        "hidden_act": "gelu",
    }


def _llama(config: Mapping[str, Any]) -> Llama:
    _only(config, hidden_act="silu", attention_bias=False, mlp_bias=False)
    rope, scaling = (config.get(name) or {} for name in ("rope_parameters", "rope_scaling"))
    for given in (rope, scaling):
        _only({"rope_type": given.get("rope_type", given.get("type", "default"))}, rope_type="default")
    sizes = _fields(
        config,
        vocab_size="vocab_size",
        block_size="max_position_embeddings",
        n_layer="num_hidden_layers",
        n_head="num_attention_heads",
        n_embd="hidden_size",
        d_ff="intermediate_size",
    )
    _only(config, head_dim=(None, sizes["n_embd"] // sizes["n_head"]))
    base = config.get("rope_theta", rope.get("rope_theta", 10_000.0))
    heads, tied = config.get("num_key_value_heads"), config.get("tie_word_embeddings", False)
    eps = config.get("rms_norm_eps", 1e-6)
    return Llama(LlamaConfig(**sizes, n_kv_head=heads, rope_base=base, eps=eps, tied=tied))


def _llama_config(c: LlamaConfig) -> dict[str, Any]:
    if c.qk_norm:
        raise UserError("Hugging Face's Llama has no norm over queries and keys")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": c.vocab_size,
        "max_position_embeddings": c.block_size,
        "num_hidden_layers": c.n_layer,
        "num_attention_heads": c.n_head,
        "num_key_value_heads": c.kv_heads,
        "hidden_size": c.n_embd,
        "intermediate_size": c.feedforward,
        "rope_theta": c.rope_base,
        "rms_norm_eps": c.eps,
        "tie_word_embeddings": c.tied,
        "hidden_act": "silu",
    }


def _encoder_config(c: EncoderConfig) -> dict[str, Any]:
    return {**_bert_config(c), "architectures": ["BertModel"]}


KINDS: dict[str, tuple[Layout, type[nn.Module], Callable[..., nn.Module], Callable[..., dict[str, Any]]]] = {
    "gpt2": (GPT2, GPT, _gpt2, _gpt2_config),
    "bert": (BERT, MaskedLM, _bert, _bert_config),
    "llama": (LLAMA, Llama, _llama, _llama_config),
}


# ---- folders ----------------------------------------------------------------------------------------------


def from_pretrained(folder: str | Path) -> Any:
    """The model of a folder with config.json and model.safetensors (or its shards), in evaluation mode.

    A GPT, a Llama, or a MaskedLM; of a BERT without a masked-language head its Encoder.

    Raises:
        UserError: no such files, a kind of model or an option that is not implemented.
        RuntimeError: weights that do not fit, every key named.
    """
    folder = Path(folder)
    config = _json(folder / "config.json")
    kind = config.get("model_type")
    if kind not in KINDS:
        raise UserError(f"{folder} holds a model of type {kind!r}; there are loaders for {', '.join(KINDS)}")
    layout, _, build, _ = KINDS[kind]
    weights = read_weights(folder)
    with nn.init.skip_random():
        model = build(config)
    if kind == "bert" and not any(key.startswith("cls.predictions") for key in weights):
        model, layout = model.encoder, BERT_ENCODER
    load_state(model, layout, weights)
    return model.eval()


def save_pretrained(model: nn.Module, folder: str | Path) -> None:
    """Write config.json and model.safetensors as Hugging Face's library reads them.

    A GPT, a Llama, a MaskedLM or an Encoder.

    Raises:
        UserError: another model, or a variant that their library does not have.
    """
    found = [(layout, config_of) for layout, kind, _, config_of in KINDS.values() if isinstance(model, kind)]
    if isinstance(model, Encoder):
        found = [(BERT_ENCODER, _encoder_config)]
    if not found:
        raise UserError(f"a {type(model).__name__} has no layout to be saved in")
    layout, config_of = found[0]
    folder = Path(folder)
    config = json.dumps(config_of(model.config), indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored_state(model, layout), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(config + "\n")


def read_weights(folder: str | Path) -> Arrays:
    """All arrays of model.safetensors, or of the shards that model.safetensors.index.json lists, in float32."""
    folder = Path(folder)
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.exists():
        return read_safetensors(whole)
    if not index.exists():
        raise UserError(f"{folder} has neither model.safetensors nor model.safetensors.index.json")
    found: Arrays = {}
    for name in sorted(set(_json(index)["weight_map"].values())):
        found.update(read_safetensors(folder / Path(name).name))
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from error


_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


def read_safetensors(path: str | Path) -> Arrays:
    """The floating arrays of a safetensors file in float32, bfloat16 included; others are left out.

    Raises:
        UserError: no such file, or one that is not whole.
    """
    path = Path(path)
    try:
        data = np.memmap(path, np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        size = int(data[:8].view("<u8")[0])
        header, body = json.loads(bytes(data[8 : 8 + size])), data[8 + size :]
        entries = {k: v for k, v in header.items() if k != "__metadata__" and v["dtype"] in _DTYPES}
        return {key: _array(entry, body) for key, entry in entries.items()}
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a whole safetensors file: {error}") from error


def _array(entry: Mapping[str, Any], body: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    start, stop = entry["data_offsets"]
    dtype = np.dtype(_DTYPES[entry["dtype"]]).newbyteorder("<")
    if not 0 <= start <= stop <= len(body) or (stop - start) != dtype.itemsize * math.prod(entry["shape"]):
        raise ValueError(f"bytes {start} to {stop} are not {entry['shape']} of {entry['dtype']}")
    raw = np.frombuffer(body[start:stop].tobytes(), dtype).reshape(entry["shape"])
    if entry["dtype"] == "BF16":  # the upper half of a float32
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32)


__all__ = ["BERT", "GPT2", "LLAMA", "from_pretrained", "load_state", "read_safetensors", "save_pretrained"]
