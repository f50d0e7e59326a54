import functools


def decorate(function):
    return functools.wraps(function)(lambda *arguments: function(*arguments))
