# Serves moto (https://docs.getmoto.org) on the given port of loopback. A GET of /copy
# answers the port of a copy of this process with the same state: making one takes
# milliseconds, while a reset of moto and a new account take a second. A copy that was asked
# for with /copy?of=copies makes copies itself. Others serve several calls at once, and end
# with /end. Every copy ends with the process it is a copy of.
import ctypes
import gc
import os
import signal
import socket
import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

moto = DomainDispatcherApplication(create_backend_app)
asked = []


def answer(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/end":
        os._exit(0)
    if path != "/copy":
        return moto(environ, start_response)
    listener = socket.create_server(("127.0.0.1", 0))
    asked.append((listener, environ.get("QUERY_STRING") == "of=copies"))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(listener.getsockname()[1]).encode()]


def serve(listener, copies):
    server = make_server("127.0.0.1", 0, answer, threaded=not copies, fd=listener.fileno())
    listener.close()
    if not copies:
        server.serve_forever()
    while True:
        server.handle_request()
        while asked:
            listener, more = asked.pop()
            gc.freeze()
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                server.server_close()
                serve(listener, more)
            listener.close()


signal.signal(signal.SIGCHLD, signal.SIG_IGN)
serve(socket.create_server(("127.0.0.1", int(sys.argv[1]))), True)
