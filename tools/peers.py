#!/usr/bin/env python3
"""Python's libraries as contenders of `clmoe bench`.

    clmoe bench --peer 'tools/peers.py numpy' --peer 'tools/peers.py pytorch' --peer 'tools/peers.py pyopencl [DEVICE]'

DEVICE is a part of an OpenCL device's name. The lines that are spoken here are those of src/cli/bench.h. Each operator is written as a
user of the library would write it, in its fastest form; what a call returns is made anew each time. Packages: python3-numpy,
python3-torch, python3-pyopencl.
"""
import os
import sys
import time
import types

try:
    import numpy as np
except ImportError as missing:
    sys.exit(print("error: %s" % missing) or 1)

INPUT_TYPES = {
    "align": ["<i4"],
    "histogram": ["<u4"],
    "scan": ["<u4"],
    "sort_keys": ["<u4"],
    "sort_pairs": ["<u4", "<u4"],
    "gather": ["u1", "<i4"],
    "route": ["<f4"],
}
OUTPUT_TYPES = {
    "align": ["<i4", "<i4", "<i4"],
    "histogram": ["<u4"],
    "scan": ["<u4"],
    "sort_keys": ["<u4"],
    "sort_pairs": ["<u4", "<u4"],
    "gather": ["u1"],
    "route": ["<i4", "<f4"],
}


class NumPy:
    name = "NumPy"
    version = np.__version__
    device = "host"

    def put(self, op, arrays):
        """Arrays of a problem, as the operator below takes them; outside of the time."""
        return arrays

    def get(self, op, outputs):
        return outputs

    def finish(self):
        pass

    def align(self, p, ids):
        ids = ids.astype(np.uint16)  # a stable sort of 16 bits is a radix sort
        num_pairs, block = ids.size, p.block_size
        counts = np.bincount(ids, minlength=p.num_experts)
        num_blocks = (counts + block - 1) // block
        padded = num_blocks * block
        starts = np.cumsum(padded) - padded
        order = np.argsort(ids, kind="stable")
        experts = ids[order]
        rank = np.arange(num_pairs) - (np.cumsum(counts) - counts)[experts]
        total = padded.sum()
        rows = np.full(total, num_pairs, np.int32)
        rows[starts[experts] + rank] = order
        return rows, np.repeat(np.arange(p.num_experts, dtype=np.int32), num_blocks), total

    def histogram(self, p, samples):
        return (np.bincount(samples, minlength=p.num_bins),)

    def scan(self, p, items):
        sums = np.zeros_like(items)
        np.cumsum(items[:-1], dtype=items.dtype, out=sums[1:])
        return (sums,)

    def sort_keys(self, p, keys):
        return (np.sort(keys, kind="stable"),)

    def sort_pairs(self, p, keys, values):
        order = np.argsort(keys, kind="stable")
        return keys[order], values[order]

    def gather(self, p, source, index):
        return (np.take(source.reshape(-1, p.row_bytes), index, axis=0),)

    def route(self, p, logits):
        logits = logits.reshape(p.num_tokens, p.num_experts)
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        ids = np.argsort(-scores, axis=1, kind="stable")[:, : p.top_k]
        weights = np.take_along_axis(scores, ids, axis=1)
        if p.renormalize:
            weights = weights / weights.sum(axis=1, keepdims=True)
        return ids, weights


class PyTorch:
    name = "PyTorch"

    def __init__(self):
        import torch

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.torch = torch
        self.version = torch.__version__
        self.device = "host, %d threads" % torch.get_num_threads()

    def put(self, op, arrays):
        arrays = [a.view(np.int32) if a.dtype == np.uint32 else a for a in arrays]  # it has no unsigned words
        if op.startswith("sort"):
            arrays[0] = arrays[0] ^ np.int32(-(2**31))
        return [self.torch.from_numpy(a) for a in arrays]

    def get(self, op, outputs):
        outputs = [np.asarray(o.numpy()) for o in outputs]
        if op.startswith("sort"):
            outputs[0] = outputs[0] ^ np.int32(-(2**31))
        return [o.view(np.uint32) if t == "<u4" and o.dtype == np.int32 else o for o, t in zip(outputs, OUTPUT_TYPES[op])]

    def finish(self):
        pass

    def align(self, p, ids):
        torch = self.torch
        num_pairs, block = ids.numel(), p.block_size
        counts = torch.bincount(ids, minlength=p.num_experts)
        num_blocks = (counts + block - 1) // block
        padded = num_blocks * block
        starts = torch.cumsum(padded, 0) - padded
        experts, order = torch.sort(ids, stable=True)
        experts = experts.long()
        rank = torch.arange(num_pairs) - (torch.cumsum(counts, 0) - counts)[experts]
        total = padded.sum()
        rows = torch.full((int(total),), num_pairs, dtype=torch.int32)
        rows[starts[experts] + rank] = order.int()
        return rows, torch.repeat_interleave(torch.arange(p.num_experts, dtype=torch.int32), num_blocks), total

    def histogram(self, p, samples):
        return (self.torch.bincount(samples, minlength=p.num_bins),)

    def scan(self, p, items):
        return (self.torch.cumsum(items, 0, dtype=self.torch.int32) - items,)

    def sort_keys(self, p, keys):
        return (self.torch.sort(keys, stable=True)[0],)

    def sort_pairs(self, p, keys, values):
        keys, order = self.torch.sort(keys, stable=True)
        return keys, values[order]

    def gather(self, p, source, index):
        return (self.torch.index_select(source.view(-1, p.row_bytes), 0, index),)

    def route(self, p, logits):
        torch = self.torch
        scores = torch.softmax(logits.view(p.num_tokens, p.num_experts), dim=-1)
        weights, ids = torch.topk(scores, p.top_k, dim=-1)
        if p.renormalize:
            weights = weights / weights.sum(-1, keepdim=True)
        return ids, weights


class PyOpenCL:
    name = "PyOpenCL"

    def __init__(self, part=""):
        import pyopencl
        import pyopencl.algorithm
        import pyopencl.array
        import pyopencl.scan

        self.cl = pyopencl
        self.version = pyopencl.VERSION_TEXT
        devices = [d for platform in pyopencl.get_platforms() for d in platform.get_devices() if part in d.name]
        if not devices:
            raise RuntimeError("no OpenCL device has '%s' in its name" % part)
        self.device = devices[0].name
        self.context = pyopencl.Context(devices[:1])
        self.queue = pyopencl.CommandQueue(self.context)
        self.sum = pyopencl.scan.GenericScanKernel(
            self.context, np.uint32, arguments="__global const uint *items, __global uint *sums", input_expr="items[i]",
            scan_expr="a + b", neutral="0", output_statement="sums[i] = prev_item;")
        self.radix = {
            names: pyopencl.algorithm.RadixSort(
                self.context, ", ".join("__global uint *" + name for name in names), "keys[i]", names, key_dtype=np.uint32)
            for names in [("keys",), ("keys", "data")]}

    def put(self, op, arrays):
        return [self.cl.array.to_device(self.queue, a) for a in arrays]

    def get(self, op, outputs):
        return [o.get() for o in outputs]

    def finish(self):
        self.queue.finish()

    def scan(self, p, items):
        sums = self.cl.array.empty_like(items)
        self.sum(items, sums, queue=self.queue)
        return (sums,)

    def sort_keys(self, p, keys):
        return self.radix[("keys",)](keys, queue=self.queue)[0]

    def sort_pairs(self, p, keys, values):
        return self.radix[("keys", "data")](keys, values, queue=self.queue)[0]


def outputs_of(p, op, outputs):
    """As the contract has them: align's tails, which the usual algorithms leave out, are filled here, outside of the time."""
    outputs = [np.ascontiguousarray(o, dtype=t).reshape(-1) for o, t in zip(outputs, OUTPUT_TYPES[op])]
    if op == "align":
        rows, blocks, _ = outputs
        num_pairs = p.num_tokens * p.top_k
        outputs[0] = np.concatenate([rows, np.full(p.capacity - rows.size, num_pairs, "<i4")])
        outputs[1] = np.concatenate([blocks, np.full(p.capacity // p.block_size - blocks.size, -1, "<i4")])
    return outputs


def serve(peer, answers):
    def answer(text):
        answers.write(text + "\n")
        answers.flush()

    operators = [op for op in INPUT_TYPES if hasattr(peer, op)]
    answer("clmoe-peer 1\nname %s\nversion %s\ndevice %s\noperators %s" % (peer.name, peer.version, peer.device, " ".join(operators)))
    p, sets, call = None, [], None
    for line in sys.stdin:
        line, _, directory = line.rstrip("\n").partition(" directory=")
        word, *rest = line.split()
        if word == "pose":
            op, *pairs = rest
            p = types.SimpleNamespace(directory=directory, **{key: int(value) for key, value in (pair.split("=") for pair in pairs)})
            sets = [peer.put(op, [np.fromfile("%s/input.%d.%d" % (p.directory, s, i), t) for i, t in enumerate(INPUT_TYPES[op])])
                    for s in range(p.num_sets)]
            call = getattr(peer, op)
            answer("ready")
        elif word == "time":
            first, num_calls = map(int, rest)
            start = time.perf_counter()
            for i in range(num_calls):
                call(p, *sets[(first + i) % len(sets)])
            peer.finish()
            answer("us %.3f" % (1e6 * (time.perf_counter() - start)))
        elif word == "solve":
            outputs = peer.get(op, call(p, *sets[int(rest[0])]))
            for i, array in enumerate(outputs_of(p, op, outputs)):
                array.tofile("%s/output.0.%d" % (p.directory, i))
            answer("done")
        else:
            answer("error: '%s' is no question" % word)


def main():
    peers = {"numpy": NumPy, "pytorch": PyTorch, "pyopencl": PyOpenCL}
    if len(sys.argv) < 2 or sys.argv[1] not in peers:
        sys.exit("usage: peers.py %s [DEVICE]" % "|".join(peers))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what drivers print is no answer
    try:
        serve(peers[sys.argv[1]](*sys.argv[2:]), answers)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except Exception as error:  # the bench shows the last line
        print("error: %s" % str(error).split("\n")[0], file=answers, flush=True)
        sys.exit(1)


main()
