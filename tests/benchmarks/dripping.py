"""Holds connections open, sends a byte of a request now and then, and comes back when dropped.

A process of its own, so that its work is none of the process that is measured:
``python dripping.py SECONDS CONNECTIONS PORT...``; prints how often it had to come back.
"""

import asyncio
import sys

REQUEST = b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"a" * 4000
PAUSE_S = 0.5
counts = {"came": 0, "refused": 0}


async def drip(port, end_s):
    loop = asyncio.get_running_loop()
    is_first = True
    while is_first or loop.time() < end_s:
        is_first = False
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            counts["refused"] += 1
            await asyncio.sleep(PAUSE_S)
            continue
        counts["came"] += 1
        try:
            for byte in REQUEST:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(PAUSE_S)
                if loop.time() > end_s:
                    break
        except OSError:
            pass
        finally:
            writer.transport.abort()


async def main(seconds, connections, ports):
    end_s = asyncio.get_running_loop().time() + seconds
    await asyncio.gather(*(drip(port, end_s) for port in ports for _ in range(connections)))


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), [int(port) for port in sys.argv[3:]]))
    print(counts["came"], counts["refused"])
