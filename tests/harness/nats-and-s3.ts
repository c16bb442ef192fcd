import { randomBytes } from "node:crypto";
import type { Settings } from "@roamfleet/server";
import { S3ForTests } from "../../packages/server/src/engines/blobs/testing/s3-server.ts";
import { NatsServer } from "../../packages/server/src/engines/bus/testing/nats-server.ts";

/** Services that several nodes share in addition to their database: a real NATS, an S3-compatible store, and the key of their secrets. */
export class NatsAndS3 implements AsyncDisposable {
  readonly nats: NatsServer;
  readonly s3: S3ForTests;
  readonly #place: ReturnType<S3ForTests["place"]>;
  readonly #secrets_key = randomBytes(32).toString("hex");
  /** The address on which nodes listen for each other; all interfaces if they are on several machines. */
  readonly #nodes_host: string;
  readonly #own: AsyncDisposableStack;

  private constructor(nats: NatsServer, s3: S3ForTests, host: string, own: AsyncDisposableStack) {
    this.#nodes_host = host === "127.0.0.1" ? host : "0.0.0.0";
    this.nats = nats;
    this.s3 = s3;
    this.#place = s3.place();
    this.#own = own;
  }

  /** Starts NATS and S3 on these addresses. */
  static async start(host = "127.0.0.1", s3_host = host): Promise<NatsAndS3> {
    await using own = new AsyncDisposableStack();
    const [nats, s3] = [own.use(await NatsServer.start({ host })), own.use(await S3ForTests.start({ host: s3_host }))];
    return new NatsAndS3(nats, s3, host, own.move());
  }

  /** Settings for a node in this process. */
  get settings(): Pick<Settings, "bus" | "nodes" | "blobs" | "secrets_key"> {
    const nodes = { listen: { host: this.#nodes_host, port: 0 }, address: undefined };
    return { bus: this.nats.address(), nodes, blobs: this.#place, secrets_key: this.#secrets_key };
  }

  /** The same settings as environment variables of a separate process. */
  get env(): Record<string, string> {
    const { bucket, prefix, endpoint = "", region, credentials } = this.#place;
    const query = new URLSearchParams({ endpoint, region, path_style: "1" });
    return {
      ROAMFLEET_BUS_URL: this.nats.url(),
      ROAMFLEET_NODE_LISTEN: `${this.#nodes_host}:0`,
      ROAMFLEET_BLOBS_URL: `s3://${bucket}/${prefix}?${query.toString()}`,
      ROAMFLEET_SECRETS_KEY: this.#secrets_key,
      AWS_ACCESS_KEY_ID: credentials?.access_key_id ?? "",
      AWS_SECRET_ACCESS_KEY: credentials?.secret_access_key ?? "",
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.disposeAsync();
  }
}
