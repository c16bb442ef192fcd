import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { HttpHandler, HttpServer } from "@foxglove/xmlrpc";

/** Limit of a request: the master sends only the publishers of a topic. */
const BODY_BYTES_MAX = 256 * 1024;
const REQUEST_MS_MAX = 5_000;
const CONNECTIONS_MAX = 16;

/**
 * HTTP server on which the master notifies this node of a topic's publishers. It listens on one address only, with limits that the library's server
 * lacks.
 */
export class FollowerServer implements HttpServer {
  handler: HttpHandler = () => Promise.resolve({ statusCode: 404 });
  readonly #address: string;
  readonly #server: Server;

  constructor(address: string) {
    this.#address = address;
    this.#server = createServer({ requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX }, (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  url(): string | undefined {
    const port = this.port();
    return port === undefined ? undefined : `http://${this.#address.includes(":") ? `[${this.#address}]` : this.#address}:${port}/`;
  }

  port(): number | undefined {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : undefined;
  }

  listen(port?: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.on("error", reject);
      this.#server.listen(port ?? 0, this.#address, resolve);
    });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    let bytes = 0;
    for await (const part of request) {
      bytes += (part as Buffer).length;
      if (bytes > BODY_BYTES_MAX) return void response.writeHead(413, { connection: "close" }).end();
      parts.push(part as Buffer);
    }
    const { statusCode, headers, body } = await this.handler({ body: Buffer.concat(parts).toString("utf8") });
    response.writeHead(statusCode, headers).end(body);
  }
}
