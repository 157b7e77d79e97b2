"""Families of models that transformers has, each as a minute configuration."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

LONGEST = 2048
SIZES: dict[str, Any] = {
    "vocab_size": 640,  # more than any tokenizer here has, as with most released models
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LOW_RANK = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
LLAMA3_POSITIONS = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LONG_POSITIONS = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [4.0, 8.0, 16.0, 32.0],
    "original_max_position_embeddings": 128,
}
WINDOW = 64
"""Tokens that a sliding layer sees; a tree is read up to there, longer sequences are padded."""
SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
GEMMA = {**GROUPED, "query_pre_attn_scalar": 8, "sliding_window": WINDOW}
LINEAR = {
    "shared_expert_intermediate_size": 32,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
JAMBA = {
    "num_key_value_heads": 2,
    "num_experts": 4,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "mamba_d_state": 4,
    "mamba_dt_rank": 4,
    "use_mamba_kernels": False,
}
RECURRENT = {
    "lru_width": 32,
    "attention_window_size": WINDOW,
    "block_types": ["recurrent", "attention"],
    "num_key_value_heads": 1,
}
DEBERTA = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 32,
    "pooler_hidden_size": 32,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
TREE = "shared prefixes"
BOTH_WAYS = "padded batches (a mask of its own, attention in both directions)"
OWN_ATTENTION = "padded batches (0 of 2 layers attend)"
HALF = "padded batches (1 of 2 layers attend)"
OWN_SHAPES = "padded batches (its layers do not take it: RuntimeError)"


class Family(NamedTuple):
    """A configuration class with its options, how palate reads such a model, and a tokenizer."""

    config: str
    options: dict[str, Any] = {}
    reads: str = TREE
    tokenizer: str = "byte BPE"
    kind: Literal["decoder", "encoder", "encoder-decoder"] = "decoder"


FAMILIES: dict[str, Family] = {
    "Llama 2": Family("Llama", tokenizer="legacy ▁"),
    "Llama 3": Family("Llama", {**GROUPED, "rope_parameters": LLAMA3_POSITIONS}),
    "Mistral": Family(
        "Mistral", {**GROUPED, "sliding_window": 300}, f"{TREE} up to 300 tokens", "▁"
    ),
    "Mixtral": Family("Mixtral", {**GROUPED, **LOCAL_EXPERTS}, tokenizer="▁"),
    "Qwen 2": Family("Qwen2", GROUPED),
    "Qwen 3": Family("Qwen3", GROUPED),
    "Qwen 3 MoE": Family("Qwen3Moe", {**GROUPED, **EXPERTS}),
    "Qwen 3 Next": Family("Qwen3Next", {**GROUPED, **EXPERTS, **LINEAR}, HALF),
    "Gemma 2": Family("Gemma2", GEMMA, "padded batches (softcap)", "▁"),
    "Gemma 3": Family(
        "Gemma3Text",
        {**GEMMA, **SLIDING, "tie_word_embeddings": False},
        f"{TREE} up to {WINDOW} tokens",
        "▁",
    ),
    "Phi": Family("Phi"),
    "Phi 3, LongRoPE": Family(
        "Phi3",
        {
            "rope_parameters": LONG_POSITIONS,
            "original_max_position_embeddings": 128,
            "num_key_value_heads": 2,
        },
    ),
    "DeepSeek V2": Family("DeepseekV2", LOW_RANK, OWN_SHAPES),
    "DeepSeek V3": Family("DeepseekV3", LOW_RANK, OWN_SHAPES),
    "OLMo 2": Family("Olmo2", {"num_key_value_heads": 2}),
    "OLMoE": Family("Olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "Falcon": Family("Falcon", {"multi_query": True}, OWN_ATTENTION),
    "Falcon, ALiBi": Family("Falcon", {"alibi": True}, OWN_ATTENTION),
    "GPT-2": Family("GPT2"),
    "GPT-Neo": Family(
        "GPTNeo",
        {
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 16,
        },
        OWN_ATTENTION,
    ),
    "GPT-NeoX": Family("GPTNeoX"),
    "OPT": Family("OPT", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "BLOOM": Family("Bloom", {}, OWN_ATTENTION),
    "MPT": Family(
        "Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": LONGEST}, OWN_ATTENTION
    ),
    "Cohere": Family("Cohere", {"num_key_value_heads": 2}),
    "Cohere 2": Family(
        "Cohere2", {**GROUPED, "sliding_window": WINDOW}, f"{TREE} up to {WINDOW} tokens"
    ),
    "Granite": Family(
        "Granite",
        {
            "num_key_value_heads": 2,
            "logits_scaling": 4.0,
            "embedding_multiplier": 2.0,
            "residual_multiplier": 0.5,
        },
    ),
    "StableLM": Family("StableLm", {"num_key_value_heads": 2}),
    "SmolLM 3": Family("SmolLM3", {"num_key_value_heads": 2}),
    "GLM 4": Family("Glm4", GROUPED),
    "GPT-OSS": Family("GptOss", {**GROUPED, **LOCAL_EXPERTS, **SLIDING}, "padded batches (s_aux)"),
    "Mamba": Family("Mamba", {"state_size": 4}, OWN_ATTENTION),
    "Mamba 2": Family(
        "Mamba2",
        {"state_size": 4, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 16},
        OWN_ATTENTION,
    ),
    "RecurrentGemma": Family("RecurrentGemma", RECURRENT, HALF, "▁"),
    "Jamba": Family("Jamba", JAMBA, HALF),
    "BERT": Family("Bert", {}, BOTH_WAYS, "WordPiece", "encoder"),
    "RoBERTa": Family("Roberta", {}, BOTH_WAYS, kind="encoder"),
    "DistilBERT": Family(
        "DistilBert",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        BOTH_WAYS,
        "WordPiece",
        "encoder",
    ),
    "ALBERT": Family("Albert", {"embedding_size": 32}, BOTH_WAYS, "unigram", "encoder"),
    "DeBERTa V2": Family("DebertaV2", DEBERTA, OWN_ATTENTION, "unigram", "encoder"),
    "ModernBERT": Family(
        "ModernBert",
        {"global_attn_every_n_layers": 2, "local_attention": 32},
        BOTH_WAYS,
        kind="encoder",
    ),
    "T5": Family(
        "T5",
        {**T5, "decoder_start_token_id": 0},
        "padded batches (its layers do not take it: ValueError)",
        "unigram",
        "encoder-decoder",
    ),
    "BART": Family("Bart", BART, BOTH_WAYS, "unigram", "encoder-decoder"),
}
