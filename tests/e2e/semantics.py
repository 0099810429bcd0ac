"""With a real model's files a request has the meaning that vLLM, transformers and llama.cpp give it."""
import math

import tiny_model
from session import case, error_of
from tiny_model import FLOAT32, STRING, value

PADDING = 320  # rows of a padded model; the tokenizer has fewer tokens


def padded(test):
    tiny_model.write(test.model, n_rows=PADDING)


def body_of(answer):
    assert error_of(answer) is None, answer
    return answer["response"]["body"]


# ---- token ids beyond the tokenizer ----

@case
def a_token_of_the_padding_spells_nothing_in_text_and_logprobs(test):
    padded(test)
    certain = {"temperature": 0, "max_tokens": 3, "logit_bias": {str(PADDING - 1): 100}}
    test.write("in.jsonl", [dict(certain, prompt="the", logprobs=5),
                            dict(certain, messages=[{"role": "user", "content": "the"}], logprobs=True, top_logprobs=5)])
    test.run_file()
    plain, chat = [body_of(answer) for answer in test.answers()]
    assert plain["choices"][0]["text"] == "" and plain["choices"][0]["logprobs"]["tokens"] == [""] * 3, plain
    assert chat["choices"][0]["message"]["content"] == "", chat
    assert [entry["bytes"] for entry in chat["choices"][0]["logprobs"]["content"]] == [[]] * 3, chat
    assert [body["usage"]["completion_tokens"] for body in (plain, chat)] == [3, 3]


@case
def every_alternative_of_a_padded_model_is_returned(test):
    padded(test)
    test.write("in.jsonl", [{"prompt": f"the {i}", "temperature": 2, "max_tokens": 20, "logprobs": 20, "ignore_eos": True}
                            for i in range(20)])
    test.run_file()
    assert all(len(body_of(answer)["choices"][0]["logprobs"]["tokens"]) == 20 for answer in test.answers())


@case
def a_prompt_may_hold_ids_of_the_padding_and_none_beyond_the_model(test):
    padded(test)
    test.write("in.jsonl", [{"prompt": [1, PADDING - 1], "max_tokens": 2, "temperature": 0, "repetition_penalty": 1.5},
                            {"prompt": [1, PADDING], "max_tokens": 2}])
    test.run_file()
    inside, outside = test.answers()
    assert body_of(inside)["usage"]["prompt_tokens"] == 2
    error = error_of(outside)
    assert error["code"] == "token_out_of_range" and str(PADDING - 1) in error["message"], outside


# ---- tokens that may be drawn, and tokens that end an answer ----

@case
def only_allowed_tokens_are_drawn_and_stop_tokens_end_an_answer(test):
    tiny_model.write(test.model)
    letters, digits = ([tiny_model.TOKENS.index(token) for token in tokens] for tokens in ("abcd", "0123456789"))
    test.write("in.jsonl", [{"prompt": f"the {i}", "temperature": 1.5, "max_tokens": 20, "allowed_token_ids": letters, "logprobs": 4,
                             "custom_id": f"a{i}"} for i in range(20)] +
                           [{"prompt": f"the {i}", "temperature": 1.5, "max_tokens": 20, "min_tokens": 6, "logprobs": 0,
                             "stop_token_ids": letters, "allowed_token_ids": letters + digits, "custom_id": f"b{i}"} for i in range(20)])
    test.run_file()
    for answer in test.answers():
        body = body_of(answer)
        choice = body["choices"][0]
        tokens, n = choice["logprobs"]["tokens"], body["usage"]["completion_tokens"]
        if answer["custom_id"].startswith("a"):
            assert set(tokens) <= set("abcd") and len(tokens) == 20 and choice["finish_reason"] == "length", body
            for top in choice["logprobs"]["top_logprobs"]:
                assert abs(sum(math.exp(logprob) for logprob in top.values()) - 1) < 1e-4, top
        else:
            assert set(tokens) <= set("0123456789") and len(tokens) >= 6, body
            assert n == len(tokens) + (choice["finish_reason"] == "stop"), body


# ---- chats ----

@case
def a_job_with_tools_takes_the_template_that_is_named_for_them(test):
    tools_template = "{% for t in tools %}{{ t.function.name }} {% endfor %}{{ messages[0].content }} {{ messages[-1].tool_calls[0].function.arguments.city }}"
    tiny_model.write(test.model, more_keys={"tokenizer.chat_template.tool_use": value(STRING, tools_template)})
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    chat = {"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": None, "tool_calls": [call]}],
            "max_tokens": 4, "temperature": 0}
    tools = [{"type": "function", "function": {"name": "weather"}}]
    test.write("in.jsonl", [dict(chat, tools=tools), {"prompt": "weather the Paris", "max_tokens": 4, "temperature": 0}])
    test.run_file()
    chatted, plain = [body_of(answer) for answer in test.answers()]
    # the answers differ: with tools no token is drawn that would break UTF-8
    assert chatted["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"], (chatted, plain)


# ---- sampling defaults ----

@case
def sampling_defaults_of_the_model_hold_for_jobs_that_name_none(test):
    tiny_model.write(test.model, more_keys={"general.sampling.temp": value(FLOAT32, 0.0)})
    job = {"prompt": "the winter", "max_tokens": 20, "seed": 3}
    test.write("in.jsonl", [job, dict(job, temperature=0), dict(job, temperature=1)])
    err = test.run_file().err
    assert "temperature=0" in err, err
    unnamed, greedy, drawn = [body_of(answer)["choices"] for answer in test.answers()]
    assert unnamed == greedy != drawn
    test.run_file("in.jsonl", "none.jsonl", "--sampling-defaults", "none")
    unnamed, _, drawn_again = [body_of(answer)["choices"] for answer in test.answers("none.jsonl")]
    assert unnamed == drawn_again == drawn
    test.run_file("in.jsonl", "option.jsonl", "--sampling-defaults", "none", "--temperature", "0")
    assert body_of(test.answers("option.jsonl")[0])["choices"] == greedy
    names = [body_of(test.answers(name)[0])["system_fingerprint"] for name in ("out.jsonl", "none.jsonl", "option.jsonl")]
    assert ["temperature=0" in name for name in names] == [True, False, True], names
