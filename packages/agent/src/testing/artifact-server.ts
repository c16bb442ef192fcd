import { createHash } from "node:crypto";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import type { Fetcher } from "../contract.ts";

/** Returns the response to a request. Undefined: the server responds with the stored bytes. */
export type Trouble = (request: {
  path: string;
  start: number;
}) =>
  | { status: number; headers?: Record<string, string> }
  | { bytes: Buffer }
  | { cut_after: number; once?: () => boolean }
  | "hang"
  | undefined;

/**
 * A small real HTTP server for artifacts and configs. It supports ranges, and returns errors when a test requests
 * them.
 */
export class ArtifactServer {
  readonly requests: { path: string; start: number }[] = [];
  trouble: Trouble = () => undefined;
  readonly #contents = new Map<string, Buffer>();
  readonly #server: http.Server;

  private constructor(server: http.Server) {
    this.#server = server;
    server.on("request", (request, response) => this.#answer(request, response));
  }

  static async start(): Promise<ArtifactServer> {
    const server = http.createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ArtifactServer(server);
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  add(bytes: Buffer): void {
    this.#contents.set(`/agent/artifacts/${createHash("sha256").update(bytes).digest("hex")}`, bytes);
  }

  setConfig(namespace: string, bytes: Buffer): void {
    this.#contents.set(`/agent/configs/${encodeURIComponent(namespace)}`, bytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const path = request.url ?? "/";
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    this.requests.push({ path, start });
    const trouble = this.trouble({ path, start });
    if (trouble === "hang") return;
    if (trouble !== undefined && "status" in trouble) return void response.writeHead(trouble.status, trouble.headers).end();
    const bytes = trouble !== undefined && "bytes" in trouble ? trouble.bytes : this.#contents.get(path);
    if (bytes === undefined) return void response.writeHead(404).end();
    if (start > 0 && start >= bytes.length) return void response.writeHead(416).end();
    const part = bytes.subarray(start);
    response.writeHead(start > 0 ? 206 : 200, { "content-length": part.length });
    if (trouble === undefined || !("cut_after" in trouble)) return void response.end(part);
    response.write(part.subarray(0, trouble.cut_after), () => void destroyOnce(response, trouble.once));
  }
}

const CUT_TIMEOUT_MS = 60_000;

/** Destroys the connection once `once` returns true. Before that, a client that has not read yet would lose data. */
async function destroyOnce(response: http.ServerResponse, once: () => boolean = () => true): Promise<void> {
  const deadline = performance.now() + CUT_TIMEOUT_MS;
  while (!once() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 2));
  response.destroy();
}

/** Returns a fetcher that sends requests to an ArtifactServer like the agent, but without a signature. */
export function plainFetcher(origin: string): Fetcher {
  return {
    async get(path, { range_start, signal }) {
      const response = await fetch(origin + path, { signal, headers: range_start === undefined ? {} : { range: `bytes=${range_start}-` } });
      return { status: response.status, headers: response.headers, body: response.body ?? Readable.from([]) };
    },
  };
}
