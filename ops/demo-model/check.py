#!/usr/bin/python3
"""Reads annotator.gguf as an engine does and measures it on the demo's jobs.

  check.py [--model annotator.gguf] [--jobs reviews.jsonl] [--labels labels.jsonl] [--expected expected.json]

Independent of train.py: the tokenizer, the sizes and the weights (dequantized to float32) come from the file; every
prompt is rendered as ChatML, tokenized and computed in full; the answer is decoded greedily. Needs numpy alone. With
--expected it writes some jobs with their exact prompt and answer tokens, for tests of an engine; it takes jobs whose
every step was clear: the best logit leads by MARGIN or more, so rounding cannot change the answer.
"""
import argparse
import collections
import json
import os

import numpy as np

import bpe
import gguf

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN = 2.0


class Model:
    def __init__(self, path):
        values, self.weights = gguf.read(path)
        self.values = values
        self.vocabulary = bpe.Vocabulary([merge.split(' ') for merge in values['tokenizer.ggml.merges']])
        assert self.vocabulary.tokens == values['tokenizer.ggml.tokens']
        self.heads, self.heads_kv = values['llama.attention.head_count'], values['llama.attention.head_count_kv']
        self.head_dim = values['llama.embedding_length'] // self.heads
        self.layers = values['llama.block_count']
        self.end = values['tokenizer.ggml.eos_token_id']
        rates = values['llama.rope.freq_base'] ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        angles = np.arange(values['llama.context_length'])[:, None] * rates
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def norm(self, x, weight):
        epsilon = np.float32(self.values['llama.attention.layer_norm_rms_epsilon'])
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight

    def rotate(self, x, first):
        x = x.reshape(len(x), -1, self.head_dim)
        cos, sin = self.cos[first:first + len(x), None], self.sin[first:first + len(x), None]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out

    def attend(self, q, keys, values, first):
        """q [rows, heads, D] at positions first...; keys and values [positions, heads_kv, D]."""
        out = np.empty_like(q)
        visible = np.arange(len(keys)) <= first + np.arange(len(q))[:, None]
        for head in range(self.heads):
            shared = head // (self.heads // self.heads_kv)
            scores = q[:, head] @ keys[:, shared].T / np.float32(np.sqrt(self.head_dim))
            scores = np.where(visible, scores, -np.inf)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = shares / shares.sum(-1, keepdims=True) @ values[:, shared]
        return out.reshape(len(q), -1)

    def forward(self, tokens, cache):
        """Logits after the last token; cache holds each layer's keys and values so far."""
        first = len(cache[0][0]) if cache else 0
        x = self.weights['token_embd.weight'][tokens]
        for layer in range(self.layers):
            w = {name: self.weights[f'blk.{layer}.{name}.weight'] for name in
                 ('attn_norm', 'attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_norm', 'ffn_gate', 'ffn_up', 'ffn_down')}
            h = self.norm(x, w['attn_norm'])
            q, k = self.rotate(h @ w['attn_q'].T, first), self.rotate(h @ w['attn_k'].T, first)
            v = (h @ w['attn_v'].T).reshape(len(x), -1, self.head_dim)
            if first:
                k, v = np.concatenate([cache[layer][0], k]), np.concatenate([cache[layer][1], v])
                cache[layer] = (k, v)
            else:
                cache.append((k, v))
            x = x + self.attend(q, k, v, first) @ w['attn_output'].T
            h = self.norm(x, w['ffn_norm'])
            gate = h @ w['ffn_gate'].T
            x = x + gate / (1 + np.exp(-gate)) * (h @ w['ffn_up'].T) @ w['ffn_down'].T
        last = self.norm(x[-1:], self.weights['output_norm.weight'])[0]
        return self.weights['token_embd.weight'] @ last

    def generate(self, prompt, max_tokens):
        """(tokens, smallest lead of the best logit over the second); the end token is not part of the tokens."""
        cache, out, lead = [], [], np.inf
        logits = self.forward(np.array(prompt), cache)
        while len(out) < max_tokens:
            second, best = np.sort(logits)[-2:]
            lead = min(lead, float(best - second))
            token = int(logits.argmax())
            if token == self.end:
                break
            out.append(token)
            if len(out) < max_tokens:
                logits = self.forward(np.array([token]), cache)
        return out, lead


def render(messages):
    text = ''.join(f'<|im_start|>{message["role"]}\n{message["content"]}<|im_end|>\n' for message in messages)
    return text + '<|im_start|>assistant\n'


def read_lines(path):
    with open(path, encoding='utf-8') as file:
        return [json.loads(line) for line in file]


def parse_answer(text):
    try:
        answer = json.loads(text)
        return (answer.get('sentiment'), answer.get('topic')) if isinstance(answer, dict) else (None, None)
    except ValueError:
        return None, None


def choose_expected(answers, n_jobs):
    """Clear jobs, one of each label first, in the order of the file."""
    clear = [answer for answer in answers if answer['margin'] >= MARGIN]
    seen, first, rest = set(), [], []
    for answer in clear:
        label = answer['answer']
        (rest if label in seen else first).append(answer)
        seen.add(label)
    chosen = (first + rest)[:n_jobs]
    return sorted(chosen, key=lambda answer: answer['custom_id'])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('model:annotator.gguf', 'jobs:reviews.jsonl', 'labels:labels.jsonl'):
        option, default = name.split(':')
        parser.add_argument('--' + option, default=os.path.join(HERE, default))
    parser.add_argument('--expected', help='write this file')
    parser.add_argument('--n-expected', type=int, default=32)
    parser.add_argument('--errors', type=int, default=0, help='print this many wrong answers')
    options = parser.parse_args()
    model = Model(options.model)
    labels = {label['custom_id']: label for label in read_lines(options.labels)}
    right, answers, n_prompt, n_answer, shared = collections.Counter(), [], 0, 0, None
    for job in read_lines(options.jobs):
        body, label = job['body'], labels[job['custom_id']]
        prompt = model.vocabulary.encode(render(body['messages']))
        tokens, margin = model.generate(prompt, body['max_tokens'])
        text = model.vocabulary.decode(tokens)
        sentiment, topic = parse_answer(text)
        same = sentiment == label['sentiment'], topic == label['topic']
        right.update({'sentiment': same[0], 'topic': same[1], 'both': all(same), 'json': sentiment is not None and topic is not None})
        n_prompt, n_answer = n_prompt + len(prompt), n_answer + len(tokens)
        shared = prompt if shared is None else os.path.commonprefix([shared, prompt])
        answers.append({'custom_id': job['custom_id'], 'prompt_tokens': prompt, 'answer_tokens': tokens, 'answer': text,
                        'margin': round(margin, 3)})
        if not all(same) and options.errors > 0:
            options.errors -= 1
            print(f'{label["sentiment"]} {label["topic"]}, answered {text}: {body["messages"][-1]["content"]!r}')
    n_jobs = len(answers)
    print(f'{n_jobs} jobs: ' + ', '.join(f'{name} {right[name] / n_jobs:.1%}' for name in ('sentiment', 'topic', 'both', 'json')))
    print(f'tokens per job: prompt {n_prompt / n_jobs:.1f} ({len(shared)} shared by all), answer {n_answer / n_jobs:.1f} and the end token; '
          f'{sum(answer["margin"] >= MARGIN for answer in answers)} jobs lead by {MARGIN} at every step, the least lead is '
          f'{min(answer["margin"] for answer in answers)}')
    if options.expected:
        with open(options.expected, 'w', encoding='utf-8') as file:
            rows = ',\n'.join(json.dumps(answer, ensure_ascii=False) for answer in choose_expected(answers, options.n_expected))
            file.write('[\n' + rows + '\n]\n')


if __name__ == '__main__':
    main()
