"""The policies that ship with kaisched: one folder a plugin.

They are registered under the entry-point group ``kaisched.plugins`` exactly as a third party's
are, and import only the public names of ``kaisched``; nothing in the host imports them. This
module stays empty, so that loading one plugin never loads another.
"""
