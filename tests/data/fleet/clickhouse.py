#!/usr/bin/env python3
"""ClickHouse as the tests have it: the Python package chdb, which is the engine without its programs.

`clickhouse.py local --output-format FORMAT` reads SQL from standard input, as `clickhouse local` does.
`clickhouse.py serve FOLDER [CERTIFICATE KEY]` has the tables of a recording and answers over HTTP as a server does, over
TLS with a certificate; it prints its port.
"""

import http.server
import re
import ssl
import sys
import urllib.parse

from chdb import session


def local(form):
    connection = session.Session()
    script = sys.stdin.read()
    # No question has a semicolon within a string.
    for statement in filter(str.strip, script.split(";")):
        sys.stdout.write(str(connection.query(statement, form)))


def serve(folder, *certificate):
    connection = session.Session()
    for table in ("flow_seconds", "link_seconds", "device_seconds", "steps"):
        connection.query(
            f"create table {table} engine = MergeTree order by (host, t) as "
            f"select * from file('{folder}/v1/{table}/**/*.parquet', Parquet)"
        )

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            wanted = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
            try:
                status, body = 200, str(connection.query(sql, wanted["default_format"][0])).encode()
            except Exception as error:
                status, body = 400, re.sub(r"^.*?(Code:)", r"\1", str(error), flags=re.S).encode()
            self.send_response(status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in filter(None, (body[:100], body[100:])):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        local(sys.argv[sys.argv.index("--output-format") + 1])
