"""How families of models write turns and thoughts, as their tokenizers and chat templates do.

Taken from published tokenizer configurations, chat templates and reasoning parsers: what stands
around a message, which tokens are special or only added, and which of them the files name as ends.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import transformers

from tiny import SIZES, Tiny

ROWS = 1100
"""Of the embeddings: 1,024 tokens of text, and those of a family."""


class Family(NamedTuple):
    """What one family's template writes, and what its tokenizer knows."""

    name: str
    user: tuple[str, str]
    """Around a message of the user."""
    bot: tuple[str, str]
    """Around a response."""
    eos: str
    """The tokenizer's."""
    named: tuple[str, ...]
    """Ends of generation_config.json."""
    special: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    """Tokens that are not special."""
    begin: str = ""
    prompt: str | None = None
    """What the template ends a prompt with, where that is not what stands before a response."""
    thought: tuple[str, str] | None = None
    pad: str | None = None
    also: str | None = None
    """An end that neither tokenizer nor settings name."""

    @property
    def template(self) -> str:
        """The chat template."""
        prompt = self.bot[0] if self.prompt is None else self.prompt
        said = dict(zip("abcde", (self.begin, *self.user, *self.bot), strict=True))
        text = {name: f"{{{{ {json.dumps(said[name], ensure_ascii=False)} }}}}" for name in said}
        return (
            f"{text['a']}{{% for m in messages %}}{{% if m.role == 'assistant' %}}"
            f"{text['d']}{{{{ m.content }}}}{text['e']}{{% else %}}"
            f"{text['b']}{{{{ m.content }}}}{text['c']}{{% endif %}}{{% endfor %}}"
            f"{{% if add_generation_prompt %}}{{{{ {json.dumps(prompt, ensure_ascii=False)} }}}}"
            "{% endif %}"
        )

    @property
    def ends(self) -> set[str]:
        """The tokens at which a reply ends."""
        return {self.eos, *self.named, *([self.also] if self.also else [])}

    def folder(self, tiny: Tiny) -> Path:
        """Return a folder with a tiny model of this family."""
        folder = tiny.root / f"family {self.name}"
        if not folder.is_dir():
            shutil.copytree(_weights(tiny), folder)
            _write_tokenizer(self, tiny, folder)
        return folder


@cache
def _weights(tiny: Tiny) -> Path:
    torch.manual_seed(7)
    folder = tiny.root / "weights of families"
    config = transformers.LlamaConfig(**{**SIZES, "vocab_size": ROWS, "eos_token_id": None})
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "text.json").write_text(tiny._first_tokens(1024))
    return folder


def _write_tokenizer(family: Family, tiny: Tiny, folder: Path) -> None:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "text.json"))
    tokens = dict.fromkeys((family.eos, *family.named, *family.special))
    tokenizer.add_tokens([transformers.AddedToken(t, special=True) for t in tokens], True)
    tokenizer.add_tokens([transformers.AddedToken(t, normalized=False) for t in family.added])
    tokenizer.eos_token, tokenizer.pad_token = family.eos, family.pad
    tokenizer.chat_template = family.template
    tokenizer.save_pretrained(folder)
    ids = tokenizer.convert_tokens_to_ids(list(family.named))
    transformers.GenerationConfig(eos_token_id=ids).save_pretrained(folder)


CHATML = {"user": ("<|im_start|>user\n", "<|im_end|>\n"),
          "bot": ("<|im_start|>assistant\n", "<|im_end|>\n")}  # fmt: skip
THINK = ("<think>", "</think>")
TEXT_END = "<|endoftext|>"
LLAMA = ("<s>", "</s>")
DEEPSEEK_END = "<｜end▁of▁sentence｜>"
DEEPSEEK = {"eos": DEEPSEEK_END, "named": (DEEPSEEK_END,),
            "begin": "<｜begin▁of▁sentence｜>", "pad": "<｜▁pad▁｜>"}  # fmt: skip
DEEPSEEK_MARKS = ("<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>")
DEEPSEEK_ROLES = ("<｜User｜>", "<｜Assistant｜>")
COHERE = ("<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>",
          "<BOS_TOKEN>", "<PAD>")  # fmt: skip
COHERE_USER = ("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
COHERE_BOT = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
COHERE_END = ("<|END_OF_TURN_TOKEN|>",)
GLM_ENDS = (TEXT_END, "<|user|>", "<|observation|>")
FAMILIES = (
    Family("Llama 2", ("[INST] ", " [/INST]"), (" ", " </s>"), "</s>", ("</s>",), LLAMA,
           begin="<s>", prompt=""),
    Family("Llama 3.1", ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
           ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"), "<|eot_id|>",
           ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
           ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
            "<|finetune_right_pad_id|>"), begin="<|begin_of_text|>",
           pad="<|finetune_right_pad_id|>"),
    Family("Llama 4", ("<|header_start|>user<|header_end|>\n\n", "<|eot|>"),
           ("<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"), "<|eot|>",
           ("<|end_of_text|>", "<|eom|>", "<|eot|>"),
           ("<|begin_of_text|>", "<|header_start|>", "<|header_end|>", "<|finetune_right_pad|>"),
           begin="<|begin_of_text|>", pad="<|finetune_right_pad|>"),
    Family("Mistral 7B", ("[INST] ", " [/INST]"), (" ", "</s>"), "</s>", ("</s>",), LLAMA,
           begin="<s>", prompt=""),
    Family("Magistral", ("[INST]", "[/INST]"), ("", "</s>"), "</s>", ("</s>",),
           (*LLAMA, "<pad>", "[INST]", "[/INST]", "[THINK]", "[/THINK]", "[SYSTEM_PROMPT]"),
           begin="<s>", thought=("[THINK]", "[/THINK]"), pad="<pad>"),
    Family("Qwen 2.5", **CHATML, eos="<|im_end|>", named=("<|im_end|>", TEXT_END), pad=TEXT_END),
    Family("Qwen 3", **CHATML, eos="<|im_end|>", named=("<|im_end|>", TEXT_END), added=THINK,
           thought=THINK, pad=TEXT_END),
    Family("Qwen 3 Thinking", **CHATML, eos="<|im_end|>", named=("<|im_end|>", TEXT_END),
           added=THINK, prompt="<|im_start|>assistant\n<think>\n", thought=THINK, pad=TEXT_END),
    Family("tuned from Qwen's base", **CHATML, eos=TEXT_END, named=(TEXT_END,), also="<|im_end|>"),
    Family("DeepSeek V2", ("User: ", "\n\n"), ("Assistant: ", DEEPSEEK_END), **DEEPSEEK,
           special=DEEPSEEK_MARKS, prompt="Assistant:"),
    Family("DeepSeek V3", ("<｜User｜>", ""), ("<｜Assistant｜>", DEEPSEEK_END), **DEEPSEEK,
           special=DEEPSEEK_MARKS, added=DEEPSEEK_ROLES),
    Family("DeepSeek R1", ("<｜User｜>", ""), ("<｜Assistant｜>", DEEPSEEK_END), **DEEPSEEK,
           special=DEEPSEEK_MARKS, added=(*DEEPSEEK_ROLES, *THINK), thought=THINK,
           prompt="<｜Assistant｜><think>\n"),
    Family("Gemma 3", ("<start_of_turn>user\n", "<end_of_turn>\n"),
           ("<start_of_turn>model\n", "<end_of_turn>\n"), "<eos>", ("<eos>", "<end_of_turn>"),
           ("<bos>", "<pad>", "<start_of_turn>"),
           ("<b>", "</b>", "<code>", "</code>", "<table>", "<sub>", "</sub>", "<h1>"),
           begin="<bos>", pad="<pad>"),
    Family("tuned from Gemma's base", ("<start_of_turn>user\n", "<end_of_turn>\n"),
           ("<start_of_turn>model\n", "<end_of_turn>\n"), "<eos>", ("<eos>",),
           ("<bos>", "<pad>", "<start_of_turn>", "<end_of_turn>"), begin="<bos>", pad="<pad>",
           also="<end_of_turn>"),
    Family("Gemma 4", ("<|turn>user\n", "<turn|>\n"), ("<|turn>model\n", "<turn|>\n"), "<eos>",
           ("<eos>", "<turn|>"), ("<bos>", "<pad>", "<|turn>", "<|channel>", "<channel|>"),
           begin="<bos>", thought=("<|channel>thought\n", "<channel|>"), pad="<pad>"),
    Family("MedGemma", ("<start_of_turn>user\n", "<end_of_turn>\n"),
           ("<start_of_turn>model\n", "<end_of_turn>\n"), "<eos>", ("<eos>", "<end_of_turn>"),
           ("<bos>", "<pad>", "<start_of_turn>"), ("<unused94>", "<unused95>"), begin="<bos>",
           thought=("<unused94>thought\n", "<unused95>"), pad="<pad>"),
    Family("Phi 3", ("<|user|>\n", "<|end|>\n"), ("<|assistant|>\n", "<|end|>\n"), TEXT_END,
           (TEXT_END, "<|assistant|>", "<|end|>"), ("<|user|>", "<|system|>"), pad=TEXT_END),
    Family("Phi 4", ("<|im_start|>user<|im_sep|>", "<|im_end|>"),
           ("<|im_start|>assistant<|im_sep|>", "<|im_end|>"), TEXT_END, (TEXT_END,),
           ("<|im_sep|>", "<|dummy_87|>"), pad="<|dummy_87|>", also="<|im_end|>"),
    Family("gpt-oss", ("<|start|>user<|message|>", "<|end|>"),
           ("<|start|>assistant<|channel|>final<|message|>", "<|return|>"), "<|return|>",
           ("<|return|>", TEXT_END, "<|call|>"),
           ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|constrain|>"),
           prompt="<|start|>assistant", pad=TEXT_END,
           thought=("<|channel|>analysis<|message|>",
                    "<|end|><|start|>assistant<|channel|>final<|message|>")),
    Family("Command R", COHERE_USER, (COHERE_BOT, "<|END_OF_TURN_TOKEN|>"), *COHERE_END,
           COHERE_END, COHERE, begin="<BOS_TOKEN>", pad="<PAD>"),
    Family("Command A Reasoning", COHERE_USER,
           (f"{COHERE_BOT}<|START_RESPONSE|>", "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"),
           *COHERE_END, COHERE_END,
           (*COHERE, "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>",
            "<|END_RESPONSE|>"), begin="<BOS_TOKEN>", pad="<PAD>",
           prompt=f"{COHERE_BOT}<|START_THINKING|>",
           thought=("<|START_THINKING|>", "<|END_THINKING|>")),
    Family("EXAONE 3.5", ("[|user|]", "\n"), ("[|assistant|]", "[|endofturn|]\n"), "[|endofturn|]",
           ("[|endofturn|]",), ("[BOS]", "[PAD]", "[|user|]", "[|assistant|]", "[|system|]"),
           begin="[BOS]", pad="[PAD]"),
    Family("EXAONE Deep", ("[|user|]", "\n"), ("[|assistant|]", "[|endofturn|]\n"),
           "[|endofturn|]", ("[|endofturn|]",), ("[BOS]", "[PAD]", "[|user|]", "[|assistant|]"),
           prompt="[|assistant|]<thought>\n", thought=("<thought>", "</thought>"), pad="[PAD]"),
    Family("EXAONE 4", ("[|user|]\n", "[|endofturn|]\n"), ("[|assistant|]\n", "[|endofturn|]\n"),
           "[|endofturn|]", ("[|endofturn|]",), ("[BOS]", "[PAD]", "[|user|]", "[|assistant|]"),
           THINK, thought=THINK, pad="[PAD]"),
    Family("ChatGLM 3", ("<|user|>\n ", ""), ("<|assistant|>\n ", ""), "</s>", ("</s>",),
           ("[gMASK]", "sop", "<|user|>", "<|assistant|>", "<|observation|>"),
           begin="[gMASK]sop", prompt="<|assistant|>", also="<|user|>"),
    Family("GLM 4", ("<|user|>\n", ""), ("<|assistant|>\n", ""), TEXT_END, GLM_ENDS,
           ("[gMASK]", "<sop>", "<|assistant|>"), begin="[gMASK]<sop>", pad=TEXT_END),
    Family("GLM 4.5", ("<|user|>\n", ""), ("<|assistant|>\n<think></think>\n", ""), TEXT_END,
           GLM_ENDS, ("[gMASK]", "<sop>", "<|assistant|>"), THINK, begin="[gMASK]<sop>",
           prompt="<|assistant|>\n", thought=THINK, pad=TEXT_END),
    Family("Seed-OSS", ("<seed:bos>user\n", "<seed:eos>"), ("<seed:bos>assistant\n", "<seed:eos>"),
           "<seed:eos>", ("<seed:eos>",), ("<seed:bos>", "<seed:pad>", "<seed:think>",
                                          "</seed:think>"),
           thought=("<seed:think>", "</seed:think>"), pad="<seed:pad>"),
    Family("Kimi K2", ("<|im_user|>user<|im_middle|>", "<|im_end|>"),
           ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"), "[EOS]", ("<|im_end|>",),
           ("[BOS]", "[PAD]", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>"), pad="[PAD]"),
    Family("Kimi-VL Thinking", ("<|im_user|>user<|im_middle|>", "<|im_end|>"),
           ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"), "[EOS]", ("<|im_end|>",),
           ("[PAD]", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>"), pad="[PAD]",
           prompt="<|im_assistant|>assistant<|im_middle|>◁think▷",
           thought=("◁think▷", "◁/think▷")),
    Family("OLMo 2", ("<|user|>\n", "\n"), ("<|assistant|>\n", TEXT_END), TEXT_END, (TEXT_END,),
           ("<|pad|>",), begin=TEXT_END, pad="<|pad|>"),
    Family("MPT", **CHATML, eos=TEXT_END, named=(TEXT_END,), also="<|im_end|>"),
    Family("Falcon", ("User: ", "\n\n"), ("Assistant: ", TEXT_END), TEXT_END, (TEXT_END,),
           prompt="Assistant:"),
    Family("Yi", **CHATML, eos=TEXT_END, named=("<|im_end|>",), pad="<unk>", special=("<unk>",)),
    Family("Baichuan 2", ("<reserved_106>", ""), ("<reserved_107>", ""), "</s>", ("</s>",),
           (*LLAMA, "<reserved_106>", "<reserved_107>"), also="<reserved_106>"),
    Family("InternLM", ("<|User|>:", "<eoh>\n"), ("<|Bot|>:", "<eoa>\n"), "</s>", ("</s>",),
           (*LLAMA, "<eoh>", "<eoa>"), begin="<s>", also="<eoa>"),
    Family("InternLM 2", **CHATML, eos="</s>", named=("</s>", "<|im_end|>"), special=LLAMA,
           begin="<s>", pad="</s>"),
    Family("Zephyr", ("<|user|>\n", "</s>\n"), ("<|assistant|>\n", "</s>\n"), "</s>", ("</s>",),
           LLAMA, pad="</s>"),
    Family("Vicuna", ("USER: ", " "), ("ASSISTANT: ", "</s>"), "</s>", ("</s>",), LLAMA,
           begin="<s>", prompt="ASSISTANT:"),
    Family("Alpaca", ("### Instruction:\n", "\n\n"), ("### Response:\n", "</s>\n\n"), "</s>",
           ("</s>",), (*LLAMA, "[PAD]"), pad="[PAD]"),
    Family("Orion", ("Human: ", "\n\n"), ("Assistant: ", "</s>"), "</s>", ("</s>",), LLAMA,
           begin="<s>"),
    Family("OpenChat", ("GPT4 Correct User: ", "<|end_of_turn|>"),
           ("GPT4 Correct Assistant: ", "<|end_of_turn|>"), "</s>", ("</s>",),
           (*LLAMA, "<|end_of_turn|>"), begin="<s>", prompt="GPT4 Correct Assistant:",
           also="<|end_of_turn|>"),
    Family("StableLM 2", ("<|user|>\n", f"{TEXT_END}\n"), ("<|assistant|>\n", f"{TEXT_END}\n"),
           TEXT_END, (TEXT_END,), ("<|user|>", "<|assistant|>")),
    Family("Granite 3", ("<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"),
           ("<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"), "<|end_of_text|>",
           ("<|end_of_text|>",), ("<|start_of_role|>", "<|end_of_role|>"),
           thought=("Here is my thought process:", "Here is my response:"), pad="<|end_of_text|>"),
    Family("Nemotron Nano 2", ("<SPECIAL_11>User\n", "\n"),
           ("<SPECIAL_11>Assistant\n", "\n<SPECIAL_12>\n"), "<SPECIAL_12>",
           ("<SPECIAL_12>",), ("<SPECIAL_10>", "<SPECIAL_11>"), THINK, thought=THINK,
           begin="<SPECIAL_10>System\n\n", prompt="<SPECIAL_11>Assistant\n<think>\n"),
    Family("Nemotron 4", ("<extra_id_1>User\n", "\n"), ("<extra_id_1>Assistant\n", "\n"), "</s>",
           ("</s>",), (*LLAMA, "<extra_id_0>", "<extra_id_1>"), begin="<extra_id_0>System\n\n",
           also="<extra_id_1>"),
    Family("SmolLM 3", ("<|im_start|>user\n", "<|im_end|>\n"),
           ("<|im_start|>assistant\n<think>\n\n</think>\n", "<|im_end|>\n"), "<|im_end|>",
           ("<|im_end|>",), (), THINK, prompt="<|im_start|>assistant\n", thought=THINK),
    Family("MiniMax M2", ("]~b]user\n", "[e~[\n"), ("]~b]ai\n", "[e~[\n"), "[e~[", ("[e~[",),
           ("]~!b[", "]~b]"), THINK, begin="]~!b[", prompt="]~b]ai\n<think>\n", thought=THINK),
    Family("Hunyuan A13B", ("", "<|extra_0|>"), ("", "<|eos|>"), "<|eos|>", ("<|eos|>",),
           ("<|startoftext|>", "<|extra_0|>", "<|pad|>"), begin="<|startoftext|>", pad="<|pad|>",
           thought=THINK),
    Family("LFM 2", **CHATML, eos="<|im_end|>", named=("<|im_end|>",), pad="<|pad|>",
           special=("<|startoftext|>", "<|pad|>"), begin="<|startoftext|>"),
    Family("Jamba", ("<|bom|><|user|> ", "<|eom|>"), ("<|bom|><|assistant|> ", "<|eom|>"),
           TEXT_END, (TEXT_END, "<|eom|>"), ("<|startoftext|>", "<|bom|>", "<|user|>",
                                             "<|assistant|>", "<|pad|>"),
           begin="<|startoftext|>", pad="<|pad|>"),
    Family("GigaChat", ("user<|role_sep|>", "<|message_sep|>"),
           ("assistant<|role_sep|>", "<|message_sep|>"), "</s>", ("</s>", "<|message_sep|>"),
           (*LLAMA, "<|role_sep|>"), begin="<s>"),
    Family("Apertus", ("<|user_start|>", "<|user_end|>"),
           ("<|assistant_start|>", "<|assistant_end|>"), "<|assistant_end|>",
           ("<|assistant_end|>",), ("<s>", "<pad>", "<|user_start|>", "<|user_end|>",
                                    "<|assistant_start|>", "<|inner_prefix|>", "<|inner_suffix|>"),
           begin="<s>", thought=("<|inner_prefix|>", "<|inner_suffix|>"), pad="<pad>"),
)  # fmt: skip
