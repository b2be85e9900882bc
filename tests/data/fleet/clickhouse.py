#!/usr/bin/env python3
"""ClickHouse as the tests have it: the Python package chdb, which is the engine without its programs.

`clickhouse.py local --output-format FORMAT` reads SQL from standard input, as `clickhouse local` does.
`clickhouse.py serve FOLDER [CERTIFICATE KEY]` has the tables of a recording and answers over HTTP as a server does, over
TLS with a certificate; it listens on the port in PORT, or on any, and prints it. Without a recording in FOLDER it has no tables until they are made. The answer to
every third insert is lost, as by a network that fails.
"""

import http.server
import os
import re
import ssl
import sys
import tempfile
import urllib.parse

from chdb import session


def local(form):
    connection = session.Session()
    script = sys.stdin.read()
    # A statement ends with a line that ends with a semicolon; one within a comment ends none.
    for statement in re.findall(r"(?:^.*\n)*?^(?!--).*;$", script, re.M):
        sys.stdout.write(str(connection.query(statement, form)))


def serve(folder, *certificate):
    connection = session.Session()
    for table in ("flow_seconds", "link_seconds", "device_seconds", "steps"):
        if not os.path.isdir(f"{folder}/v1/{table}"):
            continue
        connection.query(
            f"create table {table} engine = MergeTree order by (host, t) as "
            f"select * from file('{folder}/v1/{table}/**/*.parquet', Parquet)"
        )

    inserts = 0

    def insert(wanted, parquet):
        # Of deduplication the engine's own, by the token that came with the file.
        with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
            file.write(parquet)
            file.flush()
            into, _, form = wanted["query"][0].partition(" FORMAT ")
            names = (
                "async_insert", "input_format_parquet_preserve_order", "insert_deduplicate", "insert_deduplication_token"
            )
            settings = ", ".join(f"{name} = '{wanted[name][0]}'" for name in names)
            connection.query(f"{into} from infile '{file.name}' settings {settings} format {form}")

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            wanted = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            sql = wanted["query"][0] if "query" in wanted else body.decode()
            try:
                if sql.startswith("INSERT"):
                    nonlocal inserts
                    insert(wanted, body)
                    inserts += 1
                    if inserts % 3 == 1:
                        self.close_connection = True
                        return
                    answer = ""
                else:
                    answer = str(connection.query(sql, wanted.get("default_format", ["TSV"])[0]))
                status, body = 200, answer.encode()
            except Exception as error:
                status, body = 400, re.sub(r"^.*?(Code:)", r"\1", str(error), flags=re.S).encode()
            self.send_response(status)
            if self.request_version == "HTTP/1.0":
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in filter(None, (body[:100], body[100:])):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", int(os.environ.get("PORT", 0))), Handler)
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
