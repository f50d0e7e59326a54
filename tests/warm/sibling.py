"""Fork a process that is a child of this process's parent, by one copy of the memory instead of two."""

import ctypes
import os
from typing import Final

_CLONE3: Final = 435
"""The number of the system call, which is the same for all processors."""
_FLAGS: Final = 0x8000 | 0x20_0000 | 0x100_0000
"""The new process is a sibling, and its C library learns its id, as it does from its own `fork`."""
_GET_TID_ADDRESS: Final = 40


def fork_sibling() -> int:
    """Return the id of the new process, and 0 there.

    Where the system has no call for that, the process has no parent at first: the nearest subreaper adopts it.
    """
    system = ctypes.PyDLL(None)  # keeps the interpreter's lock, as forking must
    system.PyOS_BeforeFork()
    child = _clone(system)
    if child == 0:
        system.PyOS_AfterFork_Child()
    else:
        system.PyOS_AfterFork_Parent()
    return child if child >= 0 else _fork_orphan()


def _clone(system: ctypes.PyDLL) -> int:
    """Return the id of the new process, 0 there, and -1 where the system refuses."""
    thread_id = ctypes.c_void_p()
    if system.prctl(_GET_TID_ADDRESS, ctypes.byref(thread_id), 0, 0, 0):
        return -1
    arguments = (ctypes.c_uint64 * 8)(_FLAGS, 0, thread_id.value or 0)
    return int(system.syscall(_CLONE3, arguments, ctypes.sizeof(arguments)))


def _fork_orphan() -> int:
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return between
    if os.fork():
        os._exit(0)
    return 0
