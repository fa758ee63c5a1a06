"""Writes the small models beside this file with Hugging Face's own library: `python make.py` where transformers is.

Each folder gets config.json, model.safetensors and expected.safetensors: token ids and the logits their library finds.
Weights are random, so large that every path shows in the logits.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
MODELS = {
    "gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=23, n_positions=12, n_embd=16, n_layer=2, n_head=4)),
    "bert": BertForMaskedLM(
        BertConfig(
            vocab_size=23,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=24,
            max_position_embeddings=12,
        )
    ),
    "llama": LlamaForCausalLM(
        LlamaConfig(
            vocab_size=23,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=24,
            max_position_embeddings=12,
            rope_theta=5000.0,
        )
    ),
}


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    for name, model in MODELS.items():
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.3 + (0.5 if p.dim() == 1 else 0.0))
        if name == "bert":
            model.bert.embeddings.word_embeddings.weight.data[0] = 0.2
        model.eval()
        ids = torch.randint(1, 23, (2, 9), generator=generator)
        with torch.no_grad():
            logits = model(ids).logits
        model.save_pretrained(HERE / name, safe_serialization=True)
        save_file({"ids": ids, "logits": logits.contiguous()}, HERE / name / "expected.safetensors")
        (HERE / name / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
