"""GGUF version 3, as much of it as the demo model needs: written and read with numpy.

  magic "GGUF" | u32 version | u64 tensors | u64 key-values | key-values | tensor infos | padding to 32 | data
  key-value:   string key | u32 type | value           string: u64 length, bytes
  tensor info: string name | u32 n_dims | u64 dims, fastest first | u32 type | u64 offset into data, multiple of 32

Q8_0 is blocks of 32 values: one half-precision scale d = largest magnitude / 127, then 32 signed bytes q; value = d q.
Format: ggml's docs/gguf.md.
"""
import struct

import numpy as np

ALIGNMENT = 32
F32, Q8_0 = 0, 8
BLOCK = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {UINT32: '<I', INT32: '<i', FLOAT32: '<f', BOOL: '<?'}


def quantize(values):
    """Float32 to blocks [n, 34 bytes]; halves are rounded away from zero."""
    blocks = np.asarray(values, np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse
    quants = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    return np.concatenate([scale.astype('<f2').view(np.uint8), quants.view(np.uint8)], axis=1)


def dequantize(data, shape):
    blocks = np.frombuffer(data, np.uint8).reshape(-1, BLOCK + 2)
    scale = blocks[:, :2].copy().view('<f2').astype(np.float32)
    return (scale * blocks[:, 2:].copy().view(np.int8).astype(np.float32)).reshape(shape)


def round_trip(values):
    """The values as Q8_0 keeps them."""
    return dequantize(quantize(values).tobytes(), np.shape(values))


def pack_string(text):
    data = text.encode()
    return struct.pack('<Q', len(data)) + data


def pack_value(value):
    if isinstance(value, bool):
        return struct.pack('<I?', BOOL, value)
    if isinstance(value, int):
        return struct.pack('<II', UINT32, value)
    if isinstance(value, float):
        return struct.pack('<If', FLOAT32, value)
    if isinstance(value, str):
        return struct.pack('<I', STRING) + pack_string(value)
    if isinstance(value[0], str):
        return struct.pack('<IIQ', ARRAY, STRING, len(value)) + b''.join(map(pack_string, value))
    return struct.pack('<IIQ', ARRAY, INT32, len(value)) + np.array(value, '<i4').tobytes()


def write(path, values, tensors):
    """values: key -> str, bool, int (u32), float (f32), list of str or int (i32). tensors: name -> float32 array;
    matrices are stored as Q8_0, vectors as F32."""
    infos, data = b'', b''
    for name, tensor in tensors.items():
        blob = quantize(tensor).tobytes() if tensor.ndim == 2 else np.asarray(tensor, '<f4').tobytes()
        dims = tensor.shape[::-1]
        infos += pack_string(name) + struct.pack(f'<I{len(dims)}Q', len(dims), *dims)
        infos += struct.pack('<IQ', Q8_0 if tensor.ndim == 2 else F32, len(data))
        data += blob + b'\0' * (-len(blob) % ALIGNMENT)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(values))
    head += b''.join(pack_string(key) + pack_value(value) for key, value in values.items()) + infos
    with open(path, 'wb') as file:
        file.write(head + b'\0' * (-len(head) % ALIGNMENT) + data)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values[0]

    def string(self):
        length = self.take('<Q')
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.take('<I'), self.take('<Q')
            return [self.value(item) for _ in range(count)]
        return self.take(SCALARS[kind])


def read(path):
    """(values, tensors) with every tensor as float32, rows first."""
    with open(path, 'rb') as file:
        reader = Reader(file.read())
    if reader.data[:4] != b'GGUF' or struct.unpack_from('<I', reader.data, 4)[0] != 3:
        raise ValueError(f'{path}: not a GGUF file of version 3')
    reader.at = 8
    n_tensors, n_values = reader.take('<Q'), reader.take('<Q')
    values, infos, tensors = {}, [], {}
    for _ in range(n_values):
        key = reader.string()
        values[key] = reader.value(reader.take('<I'))
    for _ in range(n_tensors):
        name, n_dims = reader.string(), reader.take('<I')
        shape = [reader.take('<Q') for _ in range(n_dims)][::-1]
        infos.append((name, shape, reader.take('<I'), reader.take('<Q')))
    start = reader.at + -reader.at % ALIGNMENT
    for name, shape, kind, offset in infos:
        count = int(np.prod(shape))
        size = count // BLOCK * (BLOCK + 2) if kind == Q8_0 else count * 4
        blob = reader.data[start + offset:start + offset + size]
        tensors[name] = dequantize(blob, shape) if kind == Q8_0 else np.frombuffer(blob, '<f4').reshape(shape)
    return values, tensors
