import net from "node:net";

/** What may wait in a lane of the proxy before it reads no further, like the buffer of a router. */
const LANE_BYTES_MAX = 256 * 1024;
/** A throttled lane passes on about so much time's worth at once. */
const SLICE_MS = 5;

export type Direction = "up" | "down";

export interface Shape {
  /** Milliseconds that each byte waits in each direction: half of the round trip. */
  delay_ms?: number;
  /** Bytes per second towards the server (up) and towards the client (down); without it as fast as it goes. */
  bytes_per_second?: Partial<Record<Direction, number>>;
}

/**
 * A TCP proxy on loopback that makes a bad network: it delays, throttles, cuts, resets, swallows and counts. `up` is from
 * every connection to the target.
 */
export class Proxy implements AsyncDisposable {
  /** Bytes that were passed on, of all connections. */
  readonly bytes: Record<Direction, number> = { up: 0, down: 0 };
  /** Connections taken since the start. */
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

  /** `target` is an http(s) address or a port of loopback; as a function it is asked for each connection. */
  static async start(target: string | number | (() => string | number), shape: Shape = {}): Promise<Proxy> {
    const proxy = new Proxy(() => addressOf(typeof target === "function" ? target() : target), shape);
    await new Promise<void>((resolve, reject) => proxy.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** http address of the proxy; for a TLS target write https yourself. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Ends both sides of every connection in good order (FIN), after what has been read. */
  cut(): void {
    for (const pair of this.#pairs) pair.end();
  }

  /** Tears every connection down (RST); what is under way is lost. */
  reset(): void {
    for (const pair of this.#pairs) pair.reset();
  }

  /** While on, bytes are read and lost, and no end learns anything: connections stay open, new ones get no answer. */
  blackHole(on: boolean): void {
    this.#black_hole = on;
  }

  /** While on, new connections are reset at once. */
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

/** One direction: a queue of chunks with the time at which each has arrived at the far end of the line. */
class Lane {
  readonly #from: net.Socket;
  readonly #to: net.Socket;
  readonly #rules: LaneRules;
  #waiting: { bytes: Buffer | undefined; at: number }[] = [];
  #waiting_bytes = 0;
  /** The line is busy until then with what was passed on before. */
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
    // Counted on from when the line became free, if it was busy: late timers do not make it slower.
    this.#free_at = Math.max(this.#free_at, now - SLICE_MS) + (count / bytes_per_second) * 1000;
    this.#waiting_bytes -= count;
    if (this.#from.isPaused() && this.#waiting_bytes < LANE_BYTES_MAX / 2) this.#from.resume();
    if (this.#rules.lost()) return;
    this.#rules.passed(count);
    this.#to.write(part);
  }
}
