import { createHash } from "node:crypto";
import http from "node:http";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { ociImage, type TestImage } from "./images.ts";

const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";

/**
 * A small real image registry. It implements the part of the distribution API that pulls use, and
 * returns errors when a test requests them.
 */
export class Registry implements AsyncDisposable {
  readonly requests: { method: string; path: string; status: number }[] = [];
  /** Credentials that clients must send; undefined: none are required. */
  login: { username: string; password: string } | undefined;
  /** Number of bytes after which the response with a blob is cut off. */
  cut_blobs_after: number | undefined;
  readonly #blobs = new Map<string, Buffer>();
  readonly #manifests = new Map<string, Buffer>();
  readonly #port: number;
  #server: http.Server | undefined;

  private constructor(port: number) {
    this.#port = port;
  }

  static async start(): Promise<Registry> {
    const registry = new Registry(await freePort());
    await registry.open();
    return registry;
  }

  get host(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Adds an image and returns the name by which an engine pulls it. */
  add(image: TestImage, name = "robots/app"): string {
    const { blobs, manifest } = ociImage(image);
    for (const [digest, blob] of blobs) this.#blobs.set(digest, blob);
    const digest = createHash("sha256").update(manifest).digest("hex");
    this.#manifests.set(digest, manifest);
    return `${this.host}/${name}@sha256:${digest}`;
  }

  /** Opens the registry. If it was closed before, opens it again on the same port. */
  async open(): Promise<void> {
    const server = http.createServer((request, response) => this.#answer(request, response));
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(this.#port, "127.0.0.1", resolve));
    this.#server = server;
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => (this.#server === undefined ? resolve(undefined) : this.#server.close(resolve)));
    this.#server = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const path = request.url ?? "/";
    const method = request.method ?? "GET";
    const reply = (status: number, headers: Record<string, string | number> = {}, body: Buffer | string = ""): void => {
      this.requests.push({ method, path, status });
      response.writeHead(status, { "docker-distribution-api-version": "registry/2.0", ...headers });
      response.end(method === "HEAD" ? undefined : body);
    };
    if (!this.#isWelcome(request.headers.authorization)) return reply(401, { "www-authenticate": 'Basic realm="robots"' });
    if (path === "/v2/") return reply(200, { "content-type": "application/json" }, "{}");
    const [, kind, digest] = /^\/v2\/.+\/(manifests|blobs)\/sha256:([0-9a-f]{64})$/.exec(path) ?? [];
    const bytes = (kind === "manifests" ? this.#manifests : this.#blobs).get(digest ?? "");
    if (bytes === undefined)
      return reply(
        404,
        { "content-type": "application/json" },
        JSON.stringify({ errors: [{ code: "MANIFEST_UNKNOWN", message: "manifest unknown" }] }),
      );
    const headers = { "content-type": kind === "manifests" ? MANIFEST_TYPE : "application/octet-stream", "content-length": bytes.length };
    const named = { ...headers, "docker-content-digest": `sha256:${digest}` };
    if (kind === "manifests" || this.cut_blobs_after === undefined || method === "HEAD") return reply(200, named, bytes);
    this.requests.push({ method, path, status: 200 });
    response.writeHead(200, named);
    response.write(bytes.subarray(0, this.cut_blobs_after), () => setTimeout(() => response.destroy(), 20));
  }

  #isWelcome(authorization: string | undefined): boolean {
    if (this.login === undefined) return true;
    const wanted = Buffer.from(`${this.login.username}:${this.login.password}`).toString("base64");
    return authorization === `Basic ${wanted}`;
  }
}
