"""Hugging Face layouts: files their library wrote (see files/make.py), files ours writes, and files that do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tinygrad_lite as tl
from tinygrad_lite.errors import UserError
from tinygrad_lite.models import build
from tinygrad_lite.models.encoder import Encoder
from tinygrad_lite.models.generate import generate
from tinygrad_lite.models.pretrained import from_pretrained, read_safetensors, read_weights, save_pretrained

FILES = Path(__file__).with_name("files")
KINDS = ("gpt2", "bert", "llama")


def logits(model, ids):
    with tl.no_grad():
        return model(tl.from_numpy(ids))[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_theirs(kind):
    expected = load_file(FILES / kind / "expected.safetensors")
    model = from_pretrained(FILES / kind)
    assert not model.training
    np.testing.assert_allclose(logits(model, expected["ids"]), expected["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_what_was_read(kind, tmp_path):
    save_pretrained(from_pretrained(FILES / kind), tmp_path)
    before, after = (load_file(f / "model.safetensors") for f in (FILES / kind, tmp_path))
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=key)
    ours, theirs = (json.loads((f / "config.json").read_text()) for f in (tmp_path, FILES / kind))
    for name in ours.keys() & theirs.keys():
        assert ours[name] == theirs[name], name


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_their_library_reads_ours(kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    name = {"gpt2": "gpt-tiny", "bert": "encoder-tiny", "llama": "llama-tiny"}[kind]
    model = build(name, gelu="tanh") if kind == "gpt2" else build(name)
    save_pretrained(model.eval(), tmp_path)
    auto = transformers.AutoModelForMaskedLM if kind == "bert" else transformers.AutoModelForCausalLM
    theirs = auto.from_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(1, 11, (2, 7))
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits.numpy()
    np.testing.assert_allclose(logits(model, ids), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{"tied": False}, {"gelu": "none"}, {"dropout": 0.2}, {"bias": False}], ids=str)
def test_own_models_round_trip(options, tmp_path):
    """Without biases too: theirs has them, so zeros are written."""
    model = build("gpt-tiny", **options).eval()
    save_pretrained(model, tmp_path)
    again, ids = from_pretrained(tmp_path), np.arange(10).reshape(2, 5)
    assert (again.config.tied, again.config.dropout) == (model.config.tied, model.config.dropout)
    assert again.config.bias
    np.testing.assert_allclose(logits(again, ids), logits(model, ids), rtol=1e-5, atol=1e-6)
    assert ("lm_head.weight" in load_file(tmp_path / "model.safetensors")) == (not model.config.tied)


def test_generation_from_their_weights():
    model = from_pretrained(FILES / "llama")
    ids = load_file(FILES / "llama" / "expected.safetensors")["ids"][:, :4]
    out = generate(model, tl.from_numpy(ids), 5, temperature=0).numpy()
    for end in range(4, 9):
        np.testing.assert_array_equal(out[:, end], logits(model, out[:, :end])[:, -1].argmax(-1))


def altered(kind: str, folder: Path, change) -> Path:
    """A copy of a stored model whose weights `change` edits."""
    shutil.copy(FILES / kind / "config.json", folder)
    weights = load_file(FILES / kind / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    return folder


def test_older_keys(tmp_path):
    """Without prefixes, with buffers and heads that hold nothing of use, norms by their first names."""

    def gpt(weights):
        for key in list(weights):
            weights[key.removeprefix("transformer.")] = weights.pop(key)
        weights["h.0.attn.bias"] = np.ones((1, 1, 12, 12), np.float32)
        weights["lm_head.weight"] = weights["wte.weight"].copy()

    def bert(weights):
        for key in list(weights):
            name = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            weights[name] = weights.pop(key)
        weights["bert.pooler.dense.weight"] = np.zeros((16, 16), np.float32)
        weights["cls.predictions.decoder.bias"] = np.zeros(23, np.float32)

    for kind, change in (("gpt2", gpt), ("bert", bert)):
        folder = tmp_path / kind
        folder.mkdir()
        expected = load_file(FILES / kind / "expected.safetensors")
        model = from_pretrained(altered(kind, folder, change))
        np.testing.assert_allclose(logits(model, expected["ids"]), expected["logits"], rtol=1e-4, atol=1e-4)


def test_an_encoder_without_head(tmp_path):
    def change(weights):
        for key in [k for k in weights if k.startswith("cls.")]:
            del weights[key]

    whole, encoder = from_pretrained(FILES / "bert"), from_pretrained(altered("bert", tmp_path, change))
    assert isinstance(encoder, Encoder)
    ids = tl.tensor([[3, 4, 5]])
    np.testing.assert_allclose(encoder(ids).detach().numpy(), whole.encoder(ids).detach().numpy(), atol=1e-5)
    save_pretrained(encoder, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["architectures"] == ["BertModel"]
    again = from_pretrained(tmp_path / "again")
    np.testing.assert_array_equal(again(ids).detach().numpy(), encoder(ids).detach().numpy())


def test_models_that_theirs_cannot_be(tmp_path):
    """A norm in another place has no name in their layout."""
    for model in (build("encoder-tiny", norm="pre"), build("encoder-tiny", norm="sandwich").encoder):
        with pytest.raises(UserError, match=r"this model is (pre|sandwich)-norm"):
            save_pretrained(model, tmp_path)
    with pytest.raises(UserError, match="no norm over queries"):
        save_pretrained(build("llama-tiny", qk_norm=True), tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_key_that_does_not_fit_is_named(tmp_path):
    def change(weights):
        weights["transformer.h.7.ln_1.bias"] = np.zeros(3, np.float32)
        del weights["transformer.h.1.mlp.c_fc.weight"], weights["transformer.ln_f.bias"]
        weights["transformer.h.0.attn.c_attn.weight"] = np.zeros((48, 16), np.float32)
        weights["transformer.wpe.weight"] = np.zeros((5, 16), np.float32)

    with pytest.raises(RuntimeError) as error:
        from_pretrained(altered("gpt2", tmp_path, change))
    text = str(error.value)
    for part in (
        "Unexpected key(s): transformer.h.7.ln_1.bias.",
        "Missing key(s): transformer.h.1.mlp.c_fc.weight, transformer.ln_f.bias.",
        "size mismatch for transformer.h.0.attn.c_attn.weight: stored [48, 16], the model needs [16, 48].",
        "size mismatch for transformer.wpe.weight: stored [5, 16], the model needs [12, 16].",
    ):
        assert part in text


def test_shards(tmp_path):
    weights = load_file(FILES / "llama" / "model.safetensors")
    shutil.copy(FILES / "llama" / "config.json", tmp_path)
    names = sorted(weights)
    places = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for place in set(places.values()):
        save_file({n: weights[n] for n in names if places[n] == place}, tmp_path / place)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert read_weights(tmp_path).keys() == weights.keys()
    from_pretrained(tmp_path)


def test_narrow_floats(tmp_path):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    half = x.astype(np.float16)
    save_file({"half": half, "count": np.arange(3)}, tmp_path / "a.safetensors")
    found = read_safetensors(tmp_path / "a.safetensors")
    assert list(found) == ["half"]
    np.testing.assert_array_equal(found["half"], half.astype(np.float32))
    upper = (x.view(np.uint32) >> 16).astype(np.uint16)  # bfloat16: the upper half
    header = json.dumps({"b": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}}).encode()
    (tmp_path / "b.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + upper.tobytes())
    np.testing.assert_array_equal(
        read_safetensors(tmp_path / "b.safetensors")["b"], (upper.astype(np.uint32) << 16).view(np.float32)
    )


def reconfigured(kind: str, change: dict, folder: Path) -> Path:
    """A stored model's folder with some fields of its configuration replaced; "n_head": None leaves it out."""
    config = json.loads((FILES / kind / "config.json").read_text()) | change
    config = {key: value for key, value in config.items() if key != "n_head" or value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(FILES / kind / "model.safetensors", folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("gpt2", {"model_type": "mamba"}, "type 'mamba'; there are loaders for gpt2, bert, llama"),
        ("gpt2", {"activation_function": "relu"}, "activation_function 'relu'"),
        ("gpt2", {"n_head": None}, "lacks n_head"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights False"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True"),
        ("gpt2", {"layer_norm_epsilon": 1e-3}, "layer_norm_epsilon 0.001"),
        ("gpt2", {"n_inner": 20}, "n_inner 20"),
        ("bert", {"hidden_act": "relu"}, "hidden_act 'relu'"),
        ("bert", {"is_decoder": True}, "is_decoder True"),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings False"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'"),
        ("llama", {"attention_bias": True}, "attention_bias True"),
        ("llama", {"head_dim": 8}, "head_dim 8"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type 'linear'"),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_type 'llama3'"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type 'yarn'"),
    ],
    ids=str,
)
def test_other_configurations(kind, change, message, tmp_path):
    """What is not computed as their library does is refused, never computed otherwise."""
    with pytest.raises(UserError, match=message):
        from_pretrained(reconfigured(kind, change, tmp_path))


def test_older_fields(tmp_path):
    """The base of rotations beside a scaling that is none, as former versions wrote them; no id for filler."""
    change = {"rope_parameters": None, "rope_theta": 7e3, "rope_scaling": {"rope_type": "default"}}
    assert from_pretrained(reconfigured("llama", change, tmp_path)).config.rope_base == 7e3
    expected = load_file(FILES / "bert" / "expected.safetensors")
    model = from_pretrained(reconfigured("bert", {"pad_token_id": None}, tmp_path))
    assert not model.encoder.padding(tl.zeros(1, 3, dtype=tl.int64)).any()
    np.testing.assert_allclose(logits(model, expected["ids"]), expected["logits"], rtol=1e-4, atol=1e-4)


def their_pair(kind: str, options: dict):
    """Class and configuration of a small model of theirs."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 23, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6}
    sizes |= {"intermediate_size": 20, "max_position_embeddings": 12}
    if kind == "gpt2":
        made = transformers.GPT2Config(vocab_size=23, n_positions=12, n_embd=24, n_layer=2, n_head=6, **options)
        return transformers.GPT2LMHeadModel, made
    if kind == "llama":
        return transformers.LlamaForCausalLM, transformers.LlamaConfig(**sizes, **options)
    return transformers.BertForMaskedLM, transformers.BertConfig(**sizes, **options)


VARIANTS = [
    ("gpt2", {"activation_function": "gelu"}),
    ("gpt2", {"activation_function": "gelu_pytorch_tanh", "tie_word_embeddings": False}),
    ("bert", {"type_vocab_size": 3, "layer_norm_eps": 1e-3}),
    ("bert", {"type_vocab_size": 1, "pad_token_id": 5}),
    ("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    ("llama", {"num_key_value_heads": 3, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}),
    ("llama", {"rms_norm_eps": 1e-3}),
]


@pytest.mark.torch
@pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)
def test_variants_of_their_models(kind, options, tmp_path):
    """Read, compared, written, read by them, and compared again."""
    torch = pytest.importorskip("torch")
    of, config = their_pair(kind, options)
    torch.manual_seed(0)
    theirs = of(config).eval()
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.3)
    rng = np.random.default_rng(0)
    ids, types = rng.integers(6, 23, (2, 7)), rng.integers(0, options.get("type_vocab_size", 1), (2, 7))
    more = {"token_type_ids": torch.tensor(types)} if kind == "bert" else {}

    def expected(model):
        with torch.no_grad():
            return model(torch.tensor(ids), **more).logits.numpy()

    theirs.save_pretrained(tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    with tl.no_grad():
        found = ours(tl.from_numpy(ids), **({"types": tl.from_numpy(types)} if kind == "bert" else {}))[0].numpy()
    np.testing.assert_allclose(found, expected(theirs), rtol=1e-4, atol=1e-4)
    save_pretrained(ours, tmp_path / "ours")
    again, info = of.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    np.testing.assert_allclose(expected(again.eval()), expected(theirs), rtol=1e-5, atol=1e-5)


def test_broken_files(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        from_pretrained(tmp_path)
    shutil.copy(FILES / "gpt2" / "config.json", tmp_path)
    with pytest.raises(UserError, match="neither model"):
        from_pretrained(tmp_path)
    whole = (FILES / "gpt2" / "model.safetensors").read_bytes()
    for data in (b"", b"abc", whole[:200], whole[:-10], b"\xff" * 100):
        (tmp_path / "model.safetensors").write_bytes(data)
        with pytest.raises(UserError, match=r"not a whole safetensors|cannot read"):
            from_pretrained(tmp_path)
    with pytest.raises(UserError, match="MLP has no layout"):
        save_pretrained(build("mlp-tiny"), tmp_path)
