"""A contestant of the comparison: `about`, or `serve URL SETTINGS`. See ../README.md."""

import json
import os
import sys

from serve import say, serve
from store import about


def run(args: list[str]) -> None:
    match args:
        case ["about"]:
            say(answers, about())
        case ["serve", url, settings]:
            serve(url, json.loads(settings), answers)
        case _:
            raise ValueError("usage: about | serve URL SETTINGS")


# Standard output is for answers, whatever a library has to say.
answers, sys.stdout = sys.stdout, sys.stderr
ended = 0
try:
    run(sys.argv[1:])
except Exception as error:
    print(error, file=sys.stderr, flush=True)
    ended = 1
# Ends with its input, even if something is still followed: threads of a subscriber would be waited for.
os._exit(ended)
