"""A partition whose next record cannot be delivered: a batch that inflates beyond the client's limit, a corrupt one, a right that was
taken away. It is named, the others go on, and there is a way out. Over a real broker."""
import glob
import os
import re
import struct

import kafka
from fleet import lag
from session import case, text_of

ZSTD = 4
PRODUCE = 0
NOT_LEADER = 6
SMALL = ["-X", "fetch.max.bytes=1000000", "-X", "receive.message.max.bytes=1000512"]  # the least that librdkafka takes
BLOCK_BYTES = 128 << 10  # of a zstd block, at most


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def varint(number):
    """Zigzag, as in records."""
    number, out = number << 1 ^ number >> 63, b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def zstd(runs):
    """A frame of raw and RLE blocks (RFC 8878, 3.1.1.2) of [(bytes, times)]: bytes once, or one byte many times."""
    blocks = []
    for data, times in runs:
        while times > 0:
            size = min(times, BLOCK_BYTES) if len(data) == 1 else len(data)
            blocks.append((1 if len(data) == 1 and times > 1 else 0, size, data))
            times -= size if len(data) == 1 else 1
    out = struct.pack("<I", 0xFD2FB528) + bytes([0, 10 << 3])  # no content size, a window of 1 MB
    for i, (kind, size, data) in enumerate(blocks):
        out += struct.pack("<I", (i == len(blocks) - 1) | kind << 1 | size << 3)[:3] + data
    return out


def padded_jobs(names, n_bytes):
    """[(head, blanks, tail)] of records: small jobs with blanks inside."""
    records = []
    for i, name in enumerate(names):
        value = b'{"custom_id":"%s","prompt":"the","max_tokens":2' % name.encode()
        inner = b"\0" + varint(0) + varint(i) + varint(-1) + varint(len(value) + n_bytes + 1) + value
        tail = b"}" + varint(0)
        records.append((varint(len(inner) + n_bytes + len(tail)) + inner, n_bytes, tail))
    return records


def compressed_batch(names, n_bytes):
    """A record batch (magic 2) of jobs that are blanks for the most part."""
    data = zstd([run for head, n, tail in padded_jobs(names, n_bytes) for run in ((head, 1), (b" ", n), (tail, 1))])
    body = struct.pack(">hiqqqhii", ZSTD, len(names) - 1, 0, 0, -1, -1, -1, len(names)) + data
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body


def produce_batch(topic, partition, batch):
    """Produce (https://kafka.apache.org/protocol, 0) version 7, which takes zstd."""
    protocol = kafka.protocol
    body = struct.pack(">hhi", -1, -1, 120_000) + protocol.array([protocol.string(topic) + protocol.array(
        [struct.pack(">ii", partition, len(batch)) + batch])])
    code = NOT_LEADER  # of a new topic, for a moment
    while code == NOT_LEADER:
        reader = protocol.Connection(kafka.address()).request(PRODUCE, 7, body)
        ((_, ((_, code, *_),)),) = reader.array(lambda: (reader.string(), reader.array(
            lambda: [reader.take(kind) for kind in ("i", "h", "q", "q", "q")])))  # pylint: disable=W0640
    assert code == 0, code


def small_jobs(first, n):
    return [{"custom_id": f"{i}", "prompt": text_of(i, 6), "max_tokens": 2} for i in range(first, first + n)]


def produce_to(topics, partition, jobs):
    topics.produce(jobs, "jobs", "-p", str(partition))


def stalled_seconds(where, partition):
    found = re.search(rf'^sheaf_partition_stalled_seconds\{{[^}}]*partition="{partition}"\}} (\d+)$', kafka.ask(where, "/metrics")[1], re.M)
    return found and int(found.group(1))


def stalled_worker(test, topics, offset, *options):
    """A worker that has answered all jobs except those after the record, and logs why it waits."""
    worker = topics.work("--metrics", "127.0.0.1:0", "--engine-test", "instant", *options)
    where = kafka.served_at(test, worker)
    test.wait_until("it says so", lambda: worker.poll() is not None or
                    f"partition 0: the record at offset {offset} " in kafka.ask(where, "/readyz")[1])
    return worker, where


def topics_with_a_bomb(test):
    """Partition 0: 5 jobs, 3 that inflate to 4.5 MB, 5 jobs. Partition 1: 20."""
    topics = kafka.Topics(test, 2)
    produce_to(topics, 0, small_jobs(0, 5))
    produce_batch(topics.prefix + "jobs", 0, compressed_batch(["big 0", "big 1", "big 2"], 1_500_000))
    produce_to(topics, 0, small_jobs(5, 5))
    produce_to(topics, 1, small_jobs(10, 20))
    return topics


def check_stall(test, topics, worker, where, *expected):
    test.wait_until("the other jobs", lambda: worker.poll() is not None or len(topics.results()) == 25)
    assert worker.poll() is None, test.stderr_of(worker)
    test.wait_until("time passes", lambda: worker.poll() is not None or stalled_seconds(where, 0) > 1)
    assert stalled_seconds(where, 1) == 0
    status, reason = kafka.ask(where, "/readyz")
    assert status == 503, reason
    warnings = [line for line in test.stderr_of(worker).splitlines() if "can't be delivered" in line]
    assert len(warnings) == 1, warnings
    for text in (f"topic {topics.prefix}jobs partition 0: ", "ops/RUNBOOK.md", *expected):
        assert text in reason and text in warnings[0], (text, reason, warnings)
    worker.terminate()
    assert test.wait(worker).status == 0


@case
def a_small_batch_that_inflates_beyond_100_mb_is_answered(test):
    topics = kafka.Topics(test, 1)
    names = [f"big {i}" for i in range(14)]
    batch = compressed_batch(names, 9_000_000)  # 126 MB
    assert len(batch) < 22_000, len(batch)
    produce_batch(topics.prefix + "jobs", 0, batch)
    topics.produce(small_jobs(0, 5))
    topics.work_to_the_end("--engine-test", "instant")
    results = topics.results()
    assert len(results) == 19 and {result["status"] for result in results.values()} == {"done"}, results


@case
def a_batch_beyond_the_client_s_limit_stops_its_partition_alone_and_is_named(test):
    topics = topics_with_a_bomb(test)
    worker, where = stalled_worker(test, topics, 5, *SMALL)
    check_stall(test, topics, worker, where, "receive.message.max.bytes", "--skip-unreadable")
    topics.work_to_the_end("--engine-test", "instant")
    results = topics.results()
    assert len(results) == 33 and {result["status"] for result in results.values()} == {"done"}, results


@case
def a_batch_that_is_skipped_is_one_dead_letter_and_nothing_beside_it_is_lost(test):
    topics = topics_with_a_bomb(test)
    produce_batch(topics.prefix + "jobs", 0, compressed_batch([f"bomb {i}" for i in range(40)], 100_000))
    produce_batch(topics.prefix + "jobs", 0, compressed_batch(["last 0", "last 1"], 1_500_000))
    produce_to(topics, 0, small_jobs(30, 1))
    finished = test.wait(topics.work("--exit-when-idle", "1", "--engine-test", "instant", "--skip-unreadable", *SMALL))
    assert finished.status in kafka.DONE, finished
    results = topics.results()
    assert sorted(int(name) for name in results if name.isdigit()) == list(range(31)), results
    places = ("5 to 7", "13 to 52", "53 to 54")
    letters = topics.read("dead")
    assert len(letters) == 3 and len(results) == 34, (letters, results)
    for letter, place in zip(letters, places):
        headers = kafka.headers_of(letter)
        assert headers["__sheaf.errors.offset"] == place.split()[0] and f"offsets {place} " in headers["__sheaf.errors.message"], headers
        assert f"offsets {place} " in finished.err, finished


@case
def a_skipped_batch_is_finished_as_a_whole_and_answered_once(test):
    """The record is at the partition's end, after a running job: a restart reads from that job."""
    topics = kafka.Topics(test, 1)
    produce_to(topics, 0, [{"custom_id": "long", "prompt": text_of(0, 5), "max_tokens": 200, "ignore_eos": True}])
    produce_batch(topics.prefix + "jobs", 0, compressed_batch(["big 0", "big 1", "big 2"], 1_500_000))
    for _ in range(2):
        worker = topics.work("--engine-test", "fixed:200", "--skip-unreadable", *SMALL)
        test.wait_until("the letter", lambda: worker.poll() is not None or len(topics.read("dead")) > 0)
        test.wait_until("all but one is finished", lambda: worker.poll() is not None or lag(test, topics)["unfinished"] == 1)
        worker.terminate()
        assert test.wait(worker).status == 0
    topics.work_to_the_end("--engine-test", "instant", "--skip-unreadable", *SMALL)
    (letter,) = topics.read("dead")
    assert "offsets 1 to 3 " in kafka.headers_of(letter)["__sheaf.errors.message"], letter
    assert len(topics.results()) == 2


def spoil_codec(topics, offset):
    """Writes a codec that does not exist into the batch that begins at the offset, in the broker's file."""
    (path,) = glob.glob(os.path.join(kafka.broker["folder"], "**", f"{topics.prefix}jobs-0", "*.log"), recursive=True)
    with open(path, "r+b") as file:
        log = file.read()
        at = 0
        while struct.unpack_from(">q", log, at)[0] != offset:
            at += 12 + struct.unpack_from(">i", log, at + 8)[0]
        file.seek(at + 22)
        file.write(b"\7")


@case
def a_batch_of_an_unknown_codec_stops_its_partition_alone_and_can_be_skipped(test):
    """Without checking the CRC, which is wrong too: that crashes librdkafka (ops/RUNBOOK.md)."""
    kafka.need_own_broker()
    topics = kafka.Topics(test, 2)
    produce_to(topics, 0, small_jobs(0, 5))
    produce_to(topics, 0, [{"custom_id": "corrupt", "prompt": "the winter", "max_tokens": 2}])
    produce_to(topics, 0, small_jobs(5, 5))
    produce_to(topics, 1, small_jobs(10, 20))
    spoil_codec(topics, 5)
    worker, where = stalled_worker(test, topics, 5, "-X", "check.crcs=false")
    check_stall(test, topics, worker, where, "codec 0x7", "--skip-unreadable")
    topics.work_to_the_end("--engine-test", "instant", "--skip-unreadable", "-X", "check.crcs=false")
    (letter,) = topics.read("dead")
    assert kafka.headers_of(letter)["__sheaf.errors.offset"] == "5", letter
    results = topics.results()
    assert sorted(int(name) for name in results if name.isdigit()) == list(range(30)) and len(results) == 31, results


def finish():
    kafka.finish()
