"""Front process: takes connections, reads requests, and asks its parent for the pages.

Thousands of clients thus take no time from the interpreter that schedules. The process uses only
the standard library, so that it is small and starts at once. The parent hands over two open
sockets: a listening one, and a channel to itself. When the channel ends, so does the process.
"""
