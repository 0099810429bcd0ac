#!/usr/bin/python3
"""Trains the demo's annotator and writes annotator.gguf.

  train.py [--minutes 30] [--threads 2] [-o annotator.gguf]

Needs Debian's python3-torch, python3-numpy and libopenblas0-pthread (the reference BLAS is 60 times slower). The
whole takes about an hour of one core. Then check.py reads the file as an engine would, and measures it again.

The model is a llama: RMS norm, rotary positions on neighbouring pairs (2i, 2i+1), grouped-query attention, SwiGLU,
embedding and output shared. The examples never repeat: reviews.py writes them on the fly from the training split.
All examples of a step share one instruction, which is computed once per step: its rows stand first in the
step's matrix, and every review attends to its keys and values. Loss: the answer's tokens, and two helpers that
fade out: the review's own tokens with a small weight, and at each token of the review the two labels, read by a
linear layer that is thrown away (without it the first quarter of an hour goes by before attention finds
the words that matter). Training starts with reviews of one sentence and mostly without a system prompt.

The annotator.gguf beside this script: 150,000 reviews of an earlier, smaller training split, then 152,000 of this one with
--resume (22 minutes of one core). Both labels right: 96 % of reviews like those of training, 83.7 % of reviews.jsonl, where
every product, person, place and intensifier and a third of the other picks are held out. The weights before the second run had
70.0 % there.
"""
import argparse
import functools
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import bpe
import gguf
import reviews

HERE = os.path.dirname(os.path.abspath(__file__))
CONTEXT, EMBED, LAYERS, HEADS, HEADS_KV, HEAD_DIM, FFN = 1024, 192, 5, 6, 2, 32, 512
N_TOKENS = 1536
ROPE_BASE, NORM_EPS = 10000.0, 1e-5
INSTRUCTION_WEIGHTS = [0.25, 0.06, 0.05, 0.05, 0.59]  # of reviews.INSTRUCTIONS
PLAIN, READING, HELPING = 0.08, 0.5, 0.8  # shares of the training time at which these stages end
FADING = 0.35  # share of the training time, the last, over which the rate falls
SHORT = 0.6  # share of reviews that are the judgement alone
NO_INSTRUCTION = 4
SORTED, LONG = 32, 90  # batches that are sorted by length together; longer reviews are left out
LABELS = len(reviews.SENTIMENTS), len(reviews.TOPIC_NAMES)
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' "
            "+ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def prompt_parts(system, text):
    """The chat as TEMPLATE renders it, cut where the reviews begin to differ."""
    start = f'<|im_start|>system\n{system}<|im_end|>\n' if system is not None else ''
    return start + '<|im_start|>user\n', text + '<|im_end|>\n<|im_start|>assistant\n'


def make_vocabulary(path):
    """Learned from the training split alone; kept in a file since every checkpoint depends on it."""
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            return bpe.Vocabulary([line.rstrip('\n').split(' ') for line in file])
    texts = []
    for index in range(30000):
        text, sentiment, topic = reviews.make_review('train', 'vocabulary', index)
        texts += [text, reviews.answer_text(sentiment, topic)]
    texts += [system for system, _ in reviews.INSTRUCTIONS if system] * 400 + ['system\n', 'user\n', 'assistant\n'] * 1000
    merges = bpe.train_merges(texts, N_TOKENS - 256 - len(bpe.SPECIAL))
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(f'{a} {b}\n' for a, b in merges)
    return bpe.Vocabulary(merges)


def make_weights():
    """Parameters under their GGUF names, matrices as [out, in]."""
    shapes = {'token_embd.weight': (N_TOKENS, EMBED)}
    for layer in range(LAYERS):
        block = {'attn_norm': (EMBED,), 'attn_q': (HEADS * HEAD_DIM, EMBED), 'attn_k': (HEADS_KV * HEAD_DIM, EMBED),
                 'attn_v': (HEADS_KV * HEAD_DIM, EMBED), 'attn_output': (EMBED, HEADS * HEAD_DIM), 'ffn_norm': (EMBED,),
                 'ffn_gate': (FFN, EMBED), 'ffn_up': (FFN, EMBED), 'ffn_down': (EMBED, FFN)}
        shapes.update({f'blk.{layer}.{name}.weight': shape for name, shape in block.items()})
    shapes['output_norm.weight'] = (EMBED,)
    weights = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            weights[name] = torch.ones(shape)
        else:
            std = 0.02 if name.startswith('token') else shape[1] ** -0.5
            residual = 'attn_output' in name or 'ffn_down' in name
            weights[name] = torch.randn(shape) * std / (math.sqrt(2 * LAYERS) if residual else 1)
        weights[name].requires_grad_(True)
    return weights


class Norm(torch.autograd.Function):
    """RMS norm; written out because autograd's own chain of five operations costs a fifth of a step."""

    @staticmethod
    def forward(ctx, x, weight):
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPS)
        unit = x * inverse
        ctx.save_for_backward(unit, inverse, weight)
        return unit * weight

    @staticmethod
    def backward(ctx, grad):
        unit, inverse, weight = ctx.saved_tensors
        slope = grad * weight
        share = (slope * unit).mean(-1, keepdim=True)
        return torch.addcmul(slope, unit, share, value=-1).mul_(inverse), (grad * unit).sum(0)


norm = Norm.apply


def turns(positions):
    """Rotary positions (Su et al. 2021) as complex numbers, [rows, 1, HEAD_DIM / 2]."""
    rates = ROPE_BASE ** (-torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    angles = positions[:, None].double() * rates
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None]


def rotate(x, turn):
    """Turns the pairs (2i, 2i+1) of each head; x is [rows, heads * HEAD_DIM], the result [rows, heads, HEAD_DIM]."""
    pairs = torch.view_as_complex(x.view(x.shape[0], -1, HEAD_DIM // 2, 2))
    return torch.view_as_real(pairs * turn).flatten(-2)


def by_group(q, n):
    """[n * length, HEADS, D] to [n, HEADS_KV, group * length, D]: the queries of a key-value head side by side."""
    length, group = q.shape[0] // n, HEADS // HEADS_KV
    return q.view(n, length, HEADS_KV, group, HEAD_DIM).permute(0, 2, 3, 1, 4).reshape(n, HEADS_KV, group * length, HEAD_DIM)


def ungroup(y, length):
    n, group = y.shape[0], HEADS // HEADS_KV
    return y.view(n, HEADS_KV, group, length, HEAD_DIM).permute(0, 3, 1, 2, 4).reshape(n * length, HEADS * HEAD_DIM)


@functools.lru_cache(maxsize=None)
def causal(length, n_before):
    """Which keys a query may not see: none of the n_before first, of the rest those behind it."""
    mask = torch.full((length, length), float('-inf')).triu(1)
    return torch.cat([torch.zeros(length, n_before), mask], 1).repeat(HEADS // HEADS_KV, 1)


def attend(q, k, v, n_prefix, n, length):
    """The prefix attends to itself; each of the n reviews to the prefix and to itself. q is scaled already."""
    def by_row(x):
        before, rows = x.split([n_prefix, n * length])
        before = before.transpose(0, 1)[None]  # [1, HEADS_KV, n_prefix, D]
        return before, torch.cat([before.expand(n, -1, -1, -1), rows.view(n, length, HEADS_KV, HEAD_DIM).transpose(1, 2)], 2)

    q_prefix, q = q.split([n_prefix, n * length])
    (k_prefix, k), (v_prefix, v) = by_row(k), by_row(v)
    scores = by_group(q_prefix, 1) @ k_prefix.transpose(2, 3)
    prefix = scores.add_(causal(n_prefix, 0)).softmax(-1) @ v_prefix
    scores = by_group(q, n) @ k.transpose(2, 3)
    rows = scores.add_(causal(length, n_prefix)).softmax(-1) @ v
    return torch.cat([ungroup(prefix, n_prefix), ungroup(rows, length)])


class Gate(torch.autograd.Function):
    """silu(gate) * up, with little kept for the way back."""

    @staticmethod
    def forward(ctx, gate, up):
        share = torch.sigmoid(gate)
        ctx.save_for_backward(gate, up, share)
        return gate * share * up

    @staticmethod
    def backward(ctx, grad):
        gate, up, share = ctx.saved_tensors
        slope = grad * share
        return slope * up * torch.addcmul(gate + 1, gate, share, value=-1), slope * gate


def forward(weights, prefix, batch):
    """Hidden states [n, length, EMBED] of the batch [n, length] behind the shared prefix [n_prefix]."""
    n, length = batch.shape
    n_prefix = len(prefix)
    positions = torch.cat([torch.arange(n_prefix), torch.arange(n_prefix, n_prefix + length).repeat(n)])
    turn = turns(positions)
    x = F.embedding(torch.cat([prefix, batch.flatten()]), weights['token_embd.weight'])
    for layer in range(LAYERS):
        w = {name: weights[f'blk.{layer}.{name}.weight'] for name in
             ('attn_norm', 'attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_norm', 'ffn_gate', 'ffn_up', 'ffn_down')}
        h = norm(x, w['attn_norm'])
        q = rotate(h @ w['attn_q'].T, turn * HEAD_DIM ** -0.5)
        k = rotate(h @ w['attn_k'].T, turn)
        v = (h @ w['attn_v'].T).view(-1, HEADS_KV, HEAD_DIM)
        h = attend(q, k, v, n_prefix, n, length) @ w['attn_output'].T
        x = x + h
        h = norm(x, w['ffn_norm'])
        h = Gate.apply(h @ w['ffn_gate'].T, h @ w['ffn_up'].T) @ w['ffn_down'].T
        x = x + h
    return norm(x[n_prefix:], weights['output_norm.weight']).view(n, length, EMBED)


class Examples:
    """Batches of fresh examples, of similar lengths, one instruction each."""

    def __init__(self, vocabulary, split, seed, n_rows, pool):
        self.vocabulary, self.split, self.seed, self.n_rows, self.pool = vocabulary, split, seed, n_rows, pool
        self.rng, self.index, self.ready = np.random.default_rng(11), 0, []
        self.plain = self.reading = False

    def encode(self, instruction, index):
        short = self.plain or self.split == 'train' and self.rng.random() < SHORT
        text, sentiment, topic = reviews.make_review(self.split, self.seed, index, short)
        prompt = self.vocabulary.encode(prompt_parts(None, text)[1])
        answer = self.vocabulary.encode(reviews.answer_text(sentiment, topic, instruction[1])) + [self.vocabulary.end]
        answer = answer[:1] if self.reading else answer
        return prompt, answer, (reviews.SENTIMENTS.index(sentiment), reviews.TOPIC_NAMES.index(topic))

    def batch(self, number, rows):
        """(prefix, tokens, targets, answer mask, labels); a target of -1 is padding."""
        prefix = self.vocabulary.encode(prompt_parts(reviews.INSTRUCTIONS[number][0], '')[0])
        length = max(len(prompt) + len(answer) for prompt, answer, _ in rows) - 1
        tokens, targets = np.zeros((len(rows), length), np.int64), np.full((len(rows), length), -1, np.int64)
        mask = np.zeros((len(rows), length), bool)
        for row, (prompt, answer, _) in enumerate(rows):
            line = prompt + answer
            tokens[row, :len(line) - 1], targets[row, :len(line) - 1] = line[:-1], line[1:]
            mask[row, len(prompt) - 1:len(line) - 1] = True
        return tuple(map(torch.from_numpy, (np.array(prefix), tokens, targets, mask, np.array([row[2] for row in rows]))))

    def refill(self):
        for _ in range(self.pool):
            number = int(self.rng.choice(len(reviews.INSTRUCTIONS), p=INSTRUCTION_WEIGHTS))
            number = NO_INSTRUCTION if self.reading else number
            rows = [self.encode(reviews.INSTRUCTIONS[number], self.index + row) for row in range(SORTED * self.n_rows)]
            self.index += len(rows)
            rows = sorted((row for row in rows if len(row[0]) < LONG), key=lambda row: len(row[0]))
            self.ready += [self.batch(number, rows[at:at + self.n_rows]) for at in range(0, len(rows), self.n_rows)]
        self.rng.shuffle(self.ready)

    def next(self):
        if not self.ready:
            self.refill()
        return self.ready.pop()


def logits_of(weights, hidden):
    return hidden @ weights['token_embd.weight'].T


def loss_of(weights, batch, reader, helper, reading):
    """(loss, the part to show): while reading, the labels at every token; then the answer, and helper times these."""
    prefix, tokens, targets, mask, labels = batch
    hidden = forward(weights, prefix, tokens)
    answer = 0.0 if reading else F.cross_entropy(logits_of(weights, hidden[mask]), targets[mask])
    if not helper:
        return answer, answer
    rest = (mask | (targets >= 0)) if reading else ~mask & (targets >= 0)
    read = (hidden[rest] @ reader.T).split(LABELS, 1)
    label = sum(F.cross_entropy(read[kind], labels[:, kind:kind + 1].expand(-1, rest.shape[1])[rest]) for kind in (0, 1))
    if reading:
        last = (hidden[mask] @ reader.T).split(LABELS, 1)
        last = sum(F.cross_entropy(last[kind], labels[:, kind]) for kind in (0, 1))
        return 0.5 * last + 0.5 * label, last
    return answer + helper * 0.5 * label, answer


class Muon:
    """Orthogonalised momentum for the matrices of the blocks (Jordan et al. 2024), scaled to AdamW's step size."""

    def __init__(self, matrices, momentum=0.95):
        shapes = {}
        for matrix in matrices:
            shapes.setdefault(tuple(matrix.shape), []).append(matrix)
        self.groups = [(group, torch.zeros(len(group), *shape)) for shape, group in shapes.items()]
        self.momentum = momentum

    @torch.no_grad()
    def step(self, rate, decay):
        for group, buffer in self.groups:
            grad = torch.stack([matrix.grad for matrix in group])
            buffer.mul_(self.momentum).add_(grad, alpha=1 - self.momentum)
            x = grad.lerp_(buffer, self.momentum)
            tall = x.shape[1] > x.shape[2]
            x = x.transpose(1, 2) if tall else x
            x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
            for _ in range(5):
                a = x @ x.transpose(1, 2)
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            x = x.transpose(1, 2) if tall else x
            for matrix, update in zip(group, x):
                matrix.mul_(1 - rate * decay).add_(update, alpha=-rate * 0.2 * max(matrix.shape) ** 0.5)
                matrix.grad = None


@torch.no_grad()
def evaluate(weights, vocabulary, split, seed, n_reviews):
    """(sentiment, topic, both) right, with the weights as Q8_0 keeps them. The right answer is given as
    context: where every token of it is the most likely one, greedy decoding writes exactly it."""
    rounded = {name: torch.from_numpy(gguf.round_trip(w.numpy())) if w.ndim == 2 else w for name, w in weights.items()}
    examples = Examples(vocabulary, split, seed, 1, 1)
    rows = sorted((examples.encode(reviews.INSTRUCTIONS[0], index) for index in range(n_reviews)), key=lambda row: len(row[0]))
    labels = [{vocabulary.ids[name] for name in names} for names in (reviews.SENTIMENTS, reviews.TOPIC_NAMES)]
    right = np.zeros(3)
    for at in range(0, len(rows), 50):
        prefix, tokens, targets, mask, _ = examples.batch(0, rows[at:at + 50])
        found = logits_of(rounded, forward(rounded, prefix, tokens)).argmax(-1)
        for row in range(len(tokens)):
            same, target = (found[row] == targets[row])[mask[row]], targets[row][mask[row]]
            for kind in (0, 1):
                right[kind] += all(bool(ok) for ok, token in zip(same, target) if int(token) in labels[kind])
            right[2] += bool(same.all())
    return right / n_reviews


def write_model(path, weights, vocabulary):
    values = {
        'general.architecture': 'llama', 'general.name': 'sheaf annotator', 'general.license': 'apache-2.0',
        'general.description': 'Labels product reviews with sentiment and topic; trained on generated text for sheaf\'s demo',
        'general.file_type': 7, 'general.quantization_version': 2, 'general.alignment': gguf.ALIGNMENT,
        'llama.context_length': CONTEXT, 'llama.embedding_length': EMBED, 'llama.block_count': LAYERS,
        'llama.feed_forward_length': FFN, 'llama.attention.head_count': HEADS, 'llama.attention.head_count_kv': HEADS_KV,
        'llama.attention.layer_norm_rms_epsilon': NORM_EPS, 'llama.rope.dimension_count': HEAD_DIM,
        'llama.rope.freq_base': ROPE_BASE, 'llama.vocab_size': N_TOKENS,
        'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.pre': 'gpt-2', 'tokenizer.ggml.tokens': vocabulary.tokens,
        'tokenizer.ggml.token_type': [3 if token in bpe.SPECIAL else 1 for token in vocabulary.tokens],
        'tokenizer.ggml.merges': [f'{a} {b}' for a, b in vocabulary.merges],
        'tokenizer.ggml.eos_token_id': vocabulary.end, 'tokenizer.ggml.add_bos_token': False,
        'tokenizer.chat_template': TEMPLATE}
    gguf.write(path, values, {name: weight.detach().numpy() for name, weight in weights.items()})


def train(weights, vocabulary, options):
    """Cosine schedule over the time given, not over steps: the machine may be shared."""
    examples = Examples(vocabulary, 'train', options.seed, options.rows, 8)
    reader = torch.zeros(sum(LABELS), EMBED, requires_grad=True)
    blocks = [weight for name, weight in weights.items() if weight.ndim == 2 and name.startswith('blk')]
    others = [weight for name, weight in weights.items() if weight.ndim == 1 or not name.startswith('blk')] + [reader]
    muon = Muon(blocks) if options.muon else None
    optimizer = torch.optim.AdamW(others + ([] if muon else blocks), lr=options.rate, betas=(0.9, 0.98), weight_decay=options.decay)
    start, wall, step, average, n_rows, shown = time.process_time(), time.time(), 0, None, 0, 0
    helper = 0.3 if options.resume else 1.0
    while True:
        done = max((time.process_time() - start) / (60 * options.minutes), (time.time() - wall) / (60 * options.wall_minutes))
        if done >= 1:
            return
        factor = min(1.0, (step + 1) / 100) * max(0.02, min(1.0, (1 - done) / FADING))
        for group in optimizer.param_groups:
            group['lr'] = options.rate * factor
        stage = (False, False) if options.resume else (done < PLAIN, done < READING)
        if (examples.plain, examples.reading) != stage:
            (examples.plain, examples.reading), examples.ready, average = stage, [], None
        batch = examples.next()
        with torch.autocast('cpu', torch.bfloat16):
            loss, shown_loss = loss_of(weights, batch, reader, helper if stage[1] else helper * max(0.0, 1 - done / HELPING), stage[1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), 1.0)
        optimizer.step()
        if muon:
            muon.step(options.muon * factor, options.decay)
        step += 1
        n_rows += len(batch[1])
        average = shown_loss.item() if average is None else 0.98 * average + 0.02 * shown_loss.item()
        if step % 50 == 0:
            print(f'{time.time() - wall:5.0f} s, {time.process_time() - start:5.0f} s cpu  step {step}  {factor:.3f}  '
                  f'{"reading" if stage[1] else "answer"} loss {average:.4f}  {n_rows} reviews', flush=True)
        if int(done * options.checks) > shown:
            shown = int(done * options.checks)
            if not stage[1]:
                report(weights, vocabulary, 300)
            torch.save({name: weight.detach() for name, weight in weights.items()}, options.checkpoint)


def report(weights, vocabulary, n_reviews):
    plain = {name: weight.detach() for name, weight in weights.items()}
    for split in ('train', 'test'):
        sentiment, topic, both = evaluate(plain, vocabulary, split, 'check', n_reviews)
        print(f'  {split}: sentiment {sentiment:.3f}, topic {topic:.3f}, both {both:.3f} of {n_reviews}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-o', default=os.path.join(HERE, 'annotator.gguf'))
    parser.add_argument('--minutes', type=float, default=30, help='processor time')
    parser.add_argument('--wall-minutes', type=float, default=1e6, help='and no longer than this by the clock')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rows', type=int, default=64, help='reviews per step')
    parser.add_argument('--rate', type=float, default=2e-3)
    parser.add_argument('--decay', type=float, default=0.05)
    parser.add_argument('--muon', type=float, default=0.0)
    parser.add_argument('--checks', type=int, default=6, help='measurements and checkpoints on the way')
    parser.add_argument('--seed', default='annotator')
    parser.add_argument('--work', default='.', help='where the vocabulary and the checkpoint are kept')
    parser.add_argument('--resume', action='store_true', help='start from the checkpoint')
    options = parser.parse_args()
    options.checkpoint = os.path.join(options.work, 'annotator.pt')
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    vocabulary = make_vocabulary(os.path.join(options.work, 'annotator.merges'))
    weights = make_weights()
    if options.resume:
        weights = {name: weight.requires_grad_(True) for name, weight in torch.load(options.checkpoint).items()}
    print(f'{sum(weight.numel() for weight in weights.values())} parameters, {len(vocabulary.tokens)} tokens', flush=True)
    train(weights, vocabulary, options)
    report(weights, vocabulary, 1000)
    torch.save({name: weight.detach() for name, weight in weights.items()}, options.checkpoint)
    write_model(options.o, weights, vocabulary)
    print(f'{options.o}: {os.path.getsize(options.o) / 1e6:.2f} MB')


if __name__ == '__main__':
    main()
