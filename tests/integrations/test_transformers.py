"""Transformers trains, resumes and generates on the device, and its losses are the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from library_tools import MISSING, torchrun
from text_model import data, model

pytest.importorskip("accelerate", reason=MISSING)
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

Counted = Callable[[], tuple[int, int]]


def make_trainer(folder: Path, dropout: float = 0.0, **options: Any) -> Trainer:
    settings = {"max_steps": 6, "per_device_train_batch_size": 8, "learning_rate": 1e-2, "logging_steps": 1}
    settings |= {"save_steps": 3, "report_to": [], "disable_tqdm": True, "seed": 3, **options}
    return Trainer(model(dropout), TrainingArguments(str(folder), **settings), train_dataset=data())


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=48, **sizes)).eval()


def losses(trainer: Trainer) -> list[float]:
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


@pytest.fixture(scope="module")
def cpu_losses(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    trainer = make_trainer(tmp_path_factory.mktemp("cpu"), use_cpu=True)
    trainer.train()
    assert trainer.model.device.type == "cpu"
    return losses(trainer)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 1e-2), ("fp16", 1e-2)])
def test_trainer(
    tmp_path: Path, device: str, counted: Counted, cpu_losses: list[float], precision: str, tolerance: float
) -> None:
    trainer = make_trainer(tmp_path, bf16=precision == "bf16", fp16=precision == "fp16")
    assert trainer.args.device == torch.device(device, 0)
    trainer.train()
    assert trainer.model.device.type == device
    assert losses(trainer) == pytest.approx(cpu_losses, abs=tolerance)
    on_device, on_cpu = counted()
    assert on_device > 1000
    assert on_cpu == 0


def test_gradient_accumulation(tmp_path: Path, cpu_losses: list[float]) -> None:
    trainer = make_trainer(tmp_path, per_device_train_batch_size=4, gradient_accumulation_steps=2)
    trainer.train()
    assert losses(trainer) == pytest.approx(cpu_losses, abs=1e-5)


def test_resume_is_bit_equal(tmp_path: Path) -> None:
    whole = make_trainer(tmp_path, dropout=0.2)
    whole.train()
    resumed = make_trainer(tmp_path, dropout=0.2)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert losses(resumed) == losses(whole)
    expected = whole.model.state_dict()
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_evaluation(tmp_path: Path, counted: Counted) -> None:
    on_cpu = make_trainer(tmp_path, use_cpu=True).evaluate(data(8))["eval_loss"]
    counted()
    assert make_trainer(tmp_path).evaluate(data(8))["eval_loss"] == pytest.approx(on_cpu, abs=1e-5)


@pytest.mark.parametrize("device_map", ["auto", "sim:1", {"": 1}, {"transformer": 0, "lm_head": 1}])
def test_device_map(tmp_path: Path, device: str, device_map: Any) -> None:
    original = model().eval()
    if not isinstance(device_map, dict) or len(device_map) < 2:
        original.save_pretrained(tmp_path)
    else:  # lm_head and the embedding share their weights, and cannot be on two devices
        original.config.tie_word_embeddings = False
        original.lm_head.weight = torch.nn.Parameter(original.lm_head.weight.detach().clone())
        original.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, device_map=device_map)
    devices = {p.device for p in loaded.parameters()}
    assert {d.type for d in devices} == {device}
    if device_map != "auto":
        wanted = {device_map} if isinstance(device_map, str) else {f"{device}:{i}" for i in device_map.values()}
        assert {str(d) for d in devices} == wanted
    tokens = data(2)[0]["input_ids"][None]
    with torch.no_grad():
        torch.testing.assert_close(
            loaded(tokens.to(loaded.device)).logits.cpu(), original(tokens).logits, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("cache", ["dynamic", "offloaded", "offloaded_static"])
def test_generate(device: str, counted: Counted, cache: str) -> None:
    net = model().eval()
    tokens = data(2)[0]["input_ids"][None, :4]
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    wanted = net.generate(tokens, **options)
    counted()
    found = net.to(device).generate(tokens.to(device), cache_implementation=cache, **options)
    assert found.device.type == device
    assert torch.equal(found.cpu(), wanted)
    assert counted()[1] == 0


def test_generate_compiles_with_a_static_cache(device: str) -> None:
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    net = llama()
    tokens = data(2)[0]["input_ids"][None, :4]
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "cache_implementation": "static"}
    wanted = net.generate(tokens, **options)
    assert counters["frames"]["ok"] == 0  # the CPU: transformers does not compile for it
    net.to(device)
    eager = net.generate(tokens.to(device), disable_compile=True, **options)
    assert counters["frames"]["ok"] == 0
    compiled = net.generate(tokens.to(device), **options)
    assert counters["frames"]["ok"] > 0
    assert torch.equal(eager.cpu(), wanted)
    assert torch.equal(compiled.cpu(), wanted)


def test_continuous_batching_inference(device: str) -> None:
    from transformers import ContinuousBatchingConfig, GenerationConfig

    net = llama()
    cache = ContinuousBatchingConfig(num_blocks=16, max_batch_tokens=64)  # else nearly all of the device's memory
    prompts = [row["input_ids"][:length].tolist() for row, length in zip(data(2), (4, 6), strict=True)]
    settings = GenerationConfig(max_new_tokens=4, do_sample=False, eos_token_id=-1, pad_token_id=0)
    wanted = [net.generate(torch.tensor([p]), generation_config=settings)[0, len(p) :].tolist() for p in prompts]
    found = net.to(device).generate_batch(prompts, generation_config=settings, continuous_batching_config=cache)
    assert sorted(answer.generated_tokens for answer in found.values()) == sorted(wanted)


def test_continuous_batching_plans_with_the_devices_memory(device: str) -> None:
    from transformers.generation.continuous_batching.utils import get_device_and_memory_breakdown

    where, total, reserved, allocated = get_device_and_memory_breakdown()
    assert where.type == device
    assert total == torch.sim.mem_get_info()[1]
    assert 0 <= reserved <= allocated <= total


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_trains(tmp_path: Path, cpu_losses: list[float], reentrant: bool) -> None:
    options = {"activation_checkpointing_kwargs": {"use_reentrant": reentrant}}
    trainer = make_trainer(tmp_path, gradient_checkpointing=True, **options)
    trainer.train()
    assert trainer.model.is_gradient_checkpointing
    assert losses(trainer) == pytest.approx(cpu_losses, abs=1e-5)


@pytest.mark.parametrize("where", [None, 1, "sim:1", "cpu", -1])
def test_pipeline(device: str, where: Any) -> None:
    from transformers import BertConfig, BertForSequenceClassification
    from transformers.pipelines import TextClassificationPipeline

    torch.manual_seed(0)
    config = BertConfig(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    net = BertForSequenceClassification(config)
    made = TextClassificationPipeline(model=net, tokenizer=Tokens(), device=where)
    wanted = {None: f"{device}:0", 1: f"{device}:1", -1: "cpu"}.get(where, where)
    assert str(made.device) == wanted
    assert {str(p.device) for p in net.parameters()} == {wanted}
    assert 0 < made("any text")[0]["score"] < 1


class Tokens:
    """A minimal tokenizer for a pipeline."""

    pad_token_id = 0
    padding_side = "right"

    def __call__(self, text: str, **_: Any) -> dict[str, torch.Tensor]:
        from transformers import BatchEncoding

        return BatchEncoding({"input_ids": torch.tensor([[len(word) for word in text.split()]])})


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_two_ranks_equal_one_process(tmp_path: Path, launch: Any, strategy: str) -> None:
    one = tmp_path / "one.pt"
    two = tmp_path / "two.pt"
    launch(*torchrun("trainer.py", str(one), "8", ranks=1))
    launch(*torchrun("trainer.py", str(two), "4", strategy, ranks=2))
    found, wanted = torch.load(two), torch.load(one)
    assert found["devices"] == ["sim:0", "sim:1"]
    assert found["kind"].startswith("FSDP" if strategy == "fsdp2" else "DistributedDataParallel")
    assert wanted["devices"] == ["sim:0"]
    for name, value in wanted["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, rtol=1e-4, atol=1e-5)


def test_resume_of_two_ranks_is_bit_equal(tmp_path: Path, launch: Any) -> None:
    file = tmp_path / "result.pt"
    launch(*torchrun("sharded_resume.py", str(tmp_path / "run"), str(file)))
    found = torch.load(file)
    assert found["device"] == "sim:0"
    whole, resumed = found["losses"]
    assert len(whole) == 4
    assert resumed == whole


def test_program_that_imports_no_torch(run_python: Callable[..., Any]) -> None:
    """The import of Trainer's module imports torch, which mounts the device."""
    program = """
        from transformers import Trainer
        print(Trainer._save_rng_state.__code__.co_filename)
    """
    assert run_python(program, fresh=True).stdout.strip().endswith("integrations/transformers.py")
