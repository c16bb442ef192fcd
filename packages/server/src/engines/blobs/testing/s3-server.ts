import { once } from "node:events";
import { createServer, type IncomingMessage, request as send, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { startFauxqs } from "fauxqs";
import type { S3Settings } from "../s3-store.ts";

const BUCKET = "roamfleet";

export interface S3Request {
  method: string;
  /** Path and query. */
  url: string;
}

/**
 * A fault to inject into a request. `close`: closes the connection without a response. `reset`: resets it. `lost`: processes the request,
 * then closes the connection. `cut`: closes it in the middle of the response body. `silent`: sends nothing. `stuck`: stops after half of
 * the body. An object: returns this error response.
 */
export type Fault = "close" | "reset" | "lost" | "cut" | "silent" | "stuck" | { status: number; body: string };

/** Returns an error response in S3's format. */
export const s3Fault = (status: number, code: string, more = ""): Fault => ({
  status,
  body: `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>planned</Message>${more}</Error>`,
});

/** An S3 store for tests that can inject faults. It tracks unfinished multipart uploads. */
export class S3ForTests implements AsyncDisposable {
  /** Called for every request; returns the fault to inject, if any. */
  fault: (request: S3Request) => Fault | undefined | Promise<Fault | undefined> = () => undefined;
  readonly requests: S3Request[] = [];
  /** Keys of unfinished multipart uploads, by id. */
  readonly begun = new Map<string, { key: string; at: Date }>();
  readonly #proxy = createServer((request, response) => void this.#serve(request, response).catch(() => response.destroy()));
  readonly #store: Awaited<ReturnType<typeof startFauxqs>>;
  #places = 0;
  #at = { host: "", port: 0 };

  private constructor(store: Awaited<ReturnType<typeof startFauxqs>>) {
    this.#store = store;
  }

  static async start({ host = "127.0.0.1" }: { host?: string } = {}): Promise<S3ForTests> {
    const store = await startFauxqs({ port: 0, logger: false, init: { buckets: [BUCKET] } });
    const made = new S3ForTests(store);
    await made.#listen({ host, port: await freePort(host) });
    return made;
  }

  async #listen(at: { host: string; port: number }): Promise<void> {
    this.#proxy.listen(at);
    await once(this.#proxy, "listening");
    const { address, port } = this.#proxy.address() as AddressInfo;
    this.#at = { host: address, port };
  }

  /** Stops listening and resets the open connections. */
  async down(): Promise<void> {
    const closed = once(this.#proxy, "close");
    this.#proxy.close();
    this.#proxy.closeAllConnections();
    await closed;
  }

  /** Listens again on the same address. */
  async up(): Promise<void> {
    await this.#listen(this.#at);
  }

  /** Returns settings with a new prefix that contains no objects. */
  place(): S3Settings {
    this.#places += 1;
    const { host, port } = this.#at;
    return {
      bucket: BUCKET,
      prefix: `place/${this.#places}`,
      endpoint: `http://${host}:${port}`,
      region: "us-east-1",
      path_style: true,
      credentials: { access_key_id: "AKIATESTKEYID", secret_access_key: "the-secret-of-the-test", session_token: undefined },
    };
  }

  /** Removes faults and recorded requests. */
  reset(): void {
    this.fault = () => undefined;
    this.requests.splice(0);
    this.begun.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#proxy.closeAllConnections();
    this.#proxy.close();
    await this.#store.stop();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = request;
    request.on("error", () => {});
    this.requests.push({ method, url });
    const fault = await this.fault({ method, url });
    if (fault === "close") return void request.socket.destroy();
    if (fault === "reset") return void request.socket.resetAndDestroy();
    if (fault === "silent") return;
    if (typeof fault === "object") {
      request.resume();
      response.writeHead(fault.status, { "content-type": "application/xml" }).end(method === "HEAD" ? undefined : fault.body);
      return;
    }
    const query = new URL(url, "http://store").searchParams;
    if (method === "GET" && query.has("uploads")) return this.#listBegun(response, query.get("prefix") ?? "");
    const body = await buffer(request);
    const forwarded = send({ port: this.#store.port, method, path: url, headers: { ...headers, "content-length": body.length } });
    forwarded.end(body);
    const [answer] = (await once(forwarded, "response")) as [IncomingMessage];
    const content = await buffer(answer);
    const { statusCode: status = 500 } = answer;
    this.#note(method, url, query, status, content.toString("latin1", 0, 4_096));
    if (fault === "lost") return void request.socket.destroy();
    response.writeHead(status, answer.headers);
    if (fault !== "cut" && fault !== "stuck") return void response.end(content);
    response.write(content.subarray(0, Math.ceil(content.length / 2)), () => fault === "cut" && request.socket.destroy());
  }

  #note(method: string, url: string, query: URLSearchParams, status: number, content: string): void {
    const id = query.get("uploadId");
    if (status >= 300) return;
    if (method === "POST" && query.has("uploads")) {
      const begun = /<UploadId>([^<]+)</.exec(content)?.[1] ?? "";
      this.begun.set(begun, { key: new URL(url, "http://store").pathname.slice(BUCKET.length + 2), at: new Date() });
    } else if (id !== null && (method === "POST" || method === "DELETE")) this.begun.delete(id);
  }

  /** Lists unfinished multipart uploads. Real stores can do this, but the store used for tests cannot. */
  #listBegun(response: ServerResponse, prefix: string): void {
    const uploads = [...this.begun].filter(([, { key }]) => key.startsWith(prefix));
    const rows = uploads.map(
      ([id, { key, at }]) => `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${at.toISOString()}</Initiated></Upload>`,
    );
    response.writeHead(200, { "content-type": "application/xml" });
    response.end(`<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>${rows.join("")}</ListMultipartUploadsResult>`);
  }
}

/**
 * Returns `length` bytes from position `start` of a test upload, where each 8 bytes encode their position. `start` and `length` are
 * multiples of 8.
 */
export function patternAt(start: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at += 8) bytes.writeDoubleBE(start + at, at);
  return bytes;
}
