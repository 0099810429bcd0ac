"""A TCP proxy on the loopback whose connections can be cut, held up, slowed down and refused. One thread serves all connections."""
import asyncio
import random
import socket
import struct
import threading

CHUNK_BYTES = 65536
SLOW_CHUNK_BYTES = 512


class Proxy:
    """Forwards to the port that target() names at each new connection. Its methods may be called from any thread."""

    def __init__(self, target):
        self.target = target
        self.mode = "open"  # or "held", "slow", "refusing"
        self.cut_after_bytes = None  # cuts connections in the middle of a message
        self.connections = set()
        self.n_connections = 0
        self.loop = asyncio.new_event_loop()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self._serve, sock=self.listener))
        self.loop.run_forever()

    def set_mode(self, mode):
        self.mode = mode

    def cut(self):
        """Resets all connections (RST)."""
        self.loop.call_soon_threadsafe(self._cut)

    def cut_soon(self, n_bytes):
        """Resets all connections after n_bytes more through any of them: most likely inside a message."""
        self.cut_after_bytes = n_bytes

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    def _cut(self):
        self.cut_after_bytes = None
        for writer in list(self.connections):
            reset(writer)

    def _count(self, n_bytes):
        if self.cut_after_bytes is None:
            return
        self.cut_after_bytes -= n_bytes
        if self.cut_after_bytes <= 0:
            self._cut()

    async def _serve(self, reader, writer):
        self.connections.add(writer)
        self.n_connections += 1
        try:
            if self.mode == "refusing":
                return
            there, back = await asyncio.open_connection("127.0.0.1", self.target())
            self.connections.add(back)
            try:
                ways = [asyncio.ensure_future(self._forward(*way)) for way in ((reader, back), (there, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
            finally:
                self.connections.discard(back)
                reset(back)
        except (OSError, ValueError):
            pass  # the broker is restarting and has not written its port
        finally:
            self.connections.discard(writer)
            reset(writer)

    async def _forward(self, reader, writer):
        try:
            while True:
                while self.mode == "held":
                    await asyncio.sleep(0.02)
                slow = self.mode == "slow"
                data = await reader.read(SLOW_CHUNK_BYTES if slow else CHUNK_BYTES)
                if not data:
                    return
                if slow:
                    await asyncio.sleep(random.uniform(0.005, 0.1))
                while self.mode == "held":
                    await asyncio.sleep(0.02)
                self._count(len(data))
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


def reset(writer):
    """Closes with RST: data in flight is lost, as when a cable is pulled."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    if writer.transport is not None:
        writer.transport.abort()
