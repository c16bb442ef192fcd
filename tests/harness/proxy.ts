import net from "node:net";

/** Bytes that a lane of the proxy buffers, like a router. Above this number, the proxy stops reading. */
const LANE_BYTES_MAX = 256 * 1024;
/** Approximate duration of a slice. A throttled direction forwards its data in slices of this duration. */
const SLICE_MS = 5;

export type Direction = "up" | "down";

export interface Shape {
  /** Milliseconds by which each byte is delayed in each direction. This is half of the round-trip time. */
  delay_ms?: number;
  /** Bytes per second to the server (up) and to the client (down). Default: unlimited. */
  bytes_per_second?: Partial<Record<Direction, number>>;
}

/**
 * A TCP proxy on loopback that simulates a bad network: it delays, throttles, cuts, resets, drops and counts bytes. `up` is the
 * direction to the target.
 */
export class Proxy implements AsyncDisposable {
  /** Forwarded bytes of all connections. */
  readonly bytes: Record<Direction, number> = { up: 0, down: 0 };
  /** Number of accepted connections since the start. */
  accepted = 0;
  shape: Shape;
  readonly #target: () => { host: string; port: number };
  readonly #server: net.Server;
  readonly #pairs = new Set<Pair>();
  #black_hole = false;
  #refusing = false;

  private constructor(target: () => { host: string; port: number }, shape: Shape) {
    this.#target = target;
    this.shape = shape;
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket));
  }

  /** `target` is an http(s) address or a port on loopback; a function is called for each connection. */
  static async start(target: string | number | (() => string | number), shape: Shape = {}): Promise<Proxy> {
    const proxy = new Proxy(() => addressOf(typeof target === "function" ? target() : target), shape);
    await new Promise<void>((resolve, reject) => proxy.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** HTTP address of the proxy; for a TLS target, replace the scheme by https. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Number of open connections. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Ends both sides of every connection with FIN, after the data read so far. */
  cut(): void {
    for (const pair of this.#pairs) pair.end();
  }

  /** Resets every connection (RST); data in transit is lost. */
  reset(): void {
    for (const pair of this.#pairs) pair.reset();
  }

  /** While on, bytes are read and dropped without any error: connections stay open, and new ones get no response. */
  blackHole(on: boolean): void {
    this.#black_hole = on;
  }

  /** While on, new connections are reset immediately. */
  refuse(on: boolean): void {
    this.#refusing = on;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.reset();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(client: net.Socket): void {
    this.accepted += 1;
    client.on("error", () => {});
    if (this.#refusing) return void client.resetAndDestroy();
    const server = net.connect({ ...this.#target(), allowHalfOpen: true, noDelay: true });
    const pair = new Pair(client, server, (direction) => ({
      shape: () => ({ delay_ms: this.shape.delay_ms ?? 0, bytes_per_second: this.shape.bytes_per_second?.[direction] ?? Infinity }),
      lost: () => this.#black_hole,
      passed: (bytes) => (this.bytes[direction] += bytes),
    }));
    this.#pairs.add(pair);
    void pair.closed.then(() => this.#pairs.delete(pair));
  }
}

function addressOf(target: string | number): { host: string; port: number } {
  if (typeof target === "number") return { host: "127.0.0.1", port: target };
  const { hostname, port, protocol } = new URL(target);
  return { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || (protocol === "https:" ? 443 : 80)) };
}

interface LaneRules {
  shape(): { delay_ms: number; bytes_per_second: number };
  lost(): boolean;
  passed(bytes: number): void;
}

/** The two sockets of one connection. */
class Pair {
  readonly closed: Promise<unknown>;
  readonly #sockets: readonly [net.Socket, net.Socket];
  readonly #lanes: readonly [Lane, Lane];

  constructor(client: net.Socket, server: net.Socket, rules: (direction: Direction) => LaneRules) {
    this.#sockets = [client, server];
    this.#lanes = [new Lane(client, server, rules("up")), new Lane(server, client, rules("down"))];
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on("error", () => other.resetAndDestroy());
    }
    this.closed = Promise.all(this.#sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    void this.closed.then(() => this.#lanes.forEach((lane) => lane.stop()));
  }

  end(): void {
    for (const lane of this.#lanes) lane.end();
  }

  reset(): void {
    for (const lane of this.#lanes) lane.stop();
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}

/** One direction: a queue of chunks, each with its arrival time at the other end of the line. */
class Lane {
  readonly #from: net.Socket;
  readonly #to: net.Socket;
  readonly #rules: LaneRules;
  #waiting: { bytes: Buffer | undefined; at: number }[] = [];
  #waiting_bytes = 0;
  /** Time until which the line is busy with earlier chunks. */
  #free_at = 0;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(from: net.Socket, to: net.Socket, rules: LaneRules) {
    this.#from = from;
    this.#to = to;
    this.#rules = rules;
    from.on("data", (bytes) => this.#take(bytes));
    from.on("end", () => this.end());
    to.on("drain", () => this.#pass());
  }

  end(): void {
    if (!this.#rules.lost()) this.#push(undefined);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#waiting = [];
  }

  #take(bytes: Buffer): void {
    if (this.#rules.lost()) return;
    this.#waiting_bytes += bytes.length;
    if (this.#waiting_bytes >= LANE_BYTES_MAX) this.#from.pause();
    this.#push(bytes);
  }

  #push(bytes: Buffer | undefined): void {
    if (this.#stopped) return;
    this.#waiting.push({ bytes, at: performance.now() + this.#rules.shape().delay_ms });
    this.#pass();
  }

  /** Forwards due data; the rest waits for a timer, or until the far end reads. */
  #pass(): void {
    clearTimeout(this.#timer);
    while (!this.#stopped && this.#waiting.length > 0 && !this.#to.writableNeedDrain) {
      const head = this.#waiting[0]!;
      const due = Math.max(head.at, this.#free_at) - performance.now();
      if (due > 0) {
        this.#timer = setTimeout(() => this.#pass(), Math.ceil(due));
        return;
      }
      if (head.bytes === undefined) {
        this.#waiting.shift();
        this.#to.end();
      } else this.#passSome(head as { bytes: Buffer; at: number });
    }
  }

  #passSome(head: { bytes: Buffer; at: number }): void {
    const { bytes_per_second } = this.#rules.shape();
    const count = Math.min(head.bytes.length, Math.max(1, Math.floor((bytes_per_second * SLICE_MS) / 1000)));
    const part = head.bytes.subarray(0, count);
    head.bytes = head.bytes.subarray(count);
    if (head.bytes.length === 0) this.#waiting.shift();
    const now = performance.now();
    // Compute the time from when the line became free instead of from now, so that late timers do not reduce the rate.
    this.#free_at = Math.max(this.#free_at, now - SLICE_MS) + (count / bytes_per_second) * 1000;
    this.#waiting_bytes -= count;
    if (this.#from.isPaused() && this.#waiting_bytes < LANE_BYTES_MAX / 2) this.#from.resume();
    if (this.#rules.lost()) return;
    this.#rules.passed(count);
    this.#to.write(part);
  }
}
