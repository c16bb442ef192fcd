import { readFileSync } from "node:fs";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";

/** Connections that may wait to be accepted: more than any row opens at the same moment. */
const BACKLOG = 4_096;

/**
 * Starts the bare HTTP server of a program that the rig started, with TLS if the rig has passed a certificate. The program ends on SIGTERM.
 */
export function listener(handler: RequestListener): Server {
  const { PORT, TLS_CERT_FILE, TLS_KEY_FILE } = process.env;
  const server =
    TLS_CERT_FILE === undefined || TLS_KEY_FILE === undefined
      ? createServer(handler)
      : createTlsServer({ cert: readFileSync(TLS_CERT_FILE), key: readFileSync(TLS_KEY_FILE) }, handler);
  process.on("SIGTERM", () => process.exit(0));
  return server.listen(Number(PORT), "127.0.0.1", BACKLOG);
}

/** Serves `/run`, which does the work of a limit once: see `runLimit`. */
export const serveRuns = (run: () => Promise<void>): Server =>
  listener((request, response) => {
    if (request.url !== "/run") return answer(response, 200, {});
    run().then(
      () => answer(response, 200, {}),
      (error: Error) => answerError(response, error),
    );
  });

/** Sends a response with a JSON body. */
export function answer(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", "content-length": Buffer.byteLength(text) });
  response.end(text);
}

/** Sends a response that reports an error. */
export const answerError = (response: ServerResponse, { message }: Error): void =>
  answer(response, 500, { error: { code: "internal_server_error", message } });
