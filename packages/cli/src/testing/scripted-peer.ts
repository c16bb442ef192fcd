import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

export interface Asked {
  /** Method and path, including the query. */
  line: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export type Script = (asked: Asked) => { status?: number; body: unknown; headers?: Record<string, string> } | undefined;

/**
 * A scripted server for responses that the real server gives only in rare cases: closed streams, refusals and lost
 * responses. It records all requests.
 */
export class ScriptedPeer implements AsyncDisposable {
  readonly asked: Asked[] = [];
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true });

  private constructor(script: Script, accept: (socket: WebSocket) => void, refuse: (line: string) => string | undefined) {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const asked = { line: `${request.method} ${request.url}`, headers: request.headers, body: Buffer.concat(chunks).toString() };
        this.asked.push(asked);
        answer(response, script(asked));
      });
    });
    this.#server.on("upgrade", (request, socket, head) => {
      const line = `UPGRADE ${request.url}`;
      this.asked.push({ line, headers: request.headers, body: "" });
      const refusal = refuse(line);
      if (refusal === undefined) return this.#sockets.handleUpgrade(request, socket, head, accept);
      const body = JSON.stringify({ error: { code: "bad_request", message: refusal } });
      socket.end(`HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
  }

  /** `refuse` returns the message with which the server refuses a WebSocket; undefined accepts it. */
  static async start(
    script: Script,
    accept: (socket: WebSocket) => void = (socket) => socket.close(),
    refuse: (line: string) => string | undefined = () => undefined,
  ): Promise<ScriptedPeer> {
    const service = new ScriptedPeer(script, accept, refuse);
    await new Promise<void>((resolve) => service.#server.listen(0, "127.0.0.1", resolve));
    return service;
  }

  get base_url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Environment variables with which `rf` connects to this server. */
  get env(): Record<string, string> {
    return { ROAMFLEET_BASE_URL: this.base_url, ROAMFLEET_TOKEN: "rf_user_test" };
  }

  get lines(): string[] {
    return this.asked.map(({ line }) => line);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function answer(response: ServerResponse, told: ReturnType<Script>): void {
  const {
    status = 200,
    body,
    headers = {},
  } = told ?? { status: 404, body: { error: { code: "not_found", message: "this is not in the script" } } };
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}
