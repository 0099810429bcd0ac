"""A small byte-level BPE vocabulary: trainer and encoder, as GGUF's tokenizer.ggml.model "gpt2" describes it.

Text is split at special tokens, then by GPT-2's pattern into pieces (letters, digits, other signs, spaces; one
leading space goes with the piece); a piece's bytes are written as printable characters (GPT-2's table), and the
learned pairs are merged, lowest rank first. Sources: Sennrich et al. 2016 (BPE), Radford et al. 2019 (bytes).
Token ids: 256 single bytes, then one per merge, then the special tokens.
"""
import collections
import re

SPECIAL = ['<|im_start|>', '<|im_end|>']

# GPT-2's pattern in terms of Python's re: [^\W\d_] are the letters; "_" belongs to the other signs.
PIECES = re.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+""")


def byte_characters():
    """The 256 characters that stand for bytes: a printable byte is itself, the rest follow from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + position) for position, byte in enumerate(others)})
    return printable + others, table


BYTE_ORDER, CHARACTER_OF_BYTE = byte_characters()


def split_pieces(text):
    return [''.join(CHARACTER_OF_BYTE[byte] for byte in piece.encode()) for piece in PIECES.findall(text)]


def train_merges(texts, n_merges):
    """The n most useful merges over the pieces of the texts; ties go to the pair that sorts first."""
    counts = collections.Counter(piece for text in texts for piece in split_pieces(text))
    words = [[list(piece), count] for piece, count in sorted(counts.items())]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for number, (symbols, count) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += count
            where[pair].add(number)
    merges = []
    while len(merges) < n_merges:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            raise ValueError(f'only {len(merges)} merges occur twice')
        merges.append(best)
        for number in sorted(where.pop(best)):
            symbols, count = words[number]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= count
            words[number][0] = symbols = merge_pair(symbols, best)
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += count
                where[pair].add(number)
        del pairs[best]
    return merges


def merge_pair(symbols, pair):
    out, at = [], 0
    while at < len(symbols):
        if tuple(symbols[at:at + 2]) == pair:
            out.append(symbols[at] + symbols[at + 1])
            at += 2
        else:
            out.append(symbols[at])
            at += 1
    return out


class Vocabulary:
    def __init__(self, merges):
        self.merges = [tuple(merge) for merge in merges]
        self.tokens = [CHARACTER_OF_BYTE[byte] for byte in BYTE_ORDER] + [a + b for a, b in self.merges] + SPECIAL
        self.ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        assert len(self.ids) == len(self.tokens), 'two merges make the same token'
        self.ranks = {merge: rank for rank, merge in enumerate(self.merges)}
        self.bytes = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}
        self.seen = {}
        self.end = self.ids['<|im_end|>']

    def encode_piece(self, piece):
        if piece not in self.seen:
            symbols = list(piece)
            while len(symbols) > 1:
                best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if best not in self.ranks:
                    break
                symbols = merge_pair(symbols, best)
            self.seen[piece] = [self.ids[symbol] for symbol in symbols]
        return self.seen[piece]

    def encode(self, text):
        """Token ids; the names of special tokens become these tokens."""
        out = []
        for part in re.split('(' + '|'.join(map(re.escape, SPECIAL)) + ')', text):
            if part in SPECIAL:
                out.append(self.ids[part])
            else:
                for piece in split_pieces(part):
                    out += self.encode_piece(piece)
        return out

    def decode(self, token_ids):
        """Text without the special tokens."""
        text = ''.join(self.tokens[token_id] for token_id in token_ids if self.tokens[token_id] not in SPECIAL)
        return bytes(self.bytes[character] for character in text).decode('utf-8', 'replace')
