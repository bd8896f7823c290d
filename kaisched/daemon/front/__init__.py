"""The process that takes connections, reads requests, and asks its parent for the pages.

What thousands of clients do here needs nothing of the interpreter that schedules. It has the
standard library only, so that it is small and starts at once. The parent hands over two open
sockets: one that listens, and a channel to itself. When the channel ends, so does this.
"""
