import type { Clock } from "@roamfleet/clock";

const CALL_MS_MAX = 2_000;

type Answer = { ok: true; values: Record<string, unknown> } | { ok: false };

/** Calls of services, matched to responses by id. */
export class Calls {
  readonly #clock: Clock;
  readonly #send: (value: unknown) => void;
  readonly #waiting = new Map<string, (answer: Answer | undefined) => void>();
  #count = 0;
  #ended = false;

  constructor(clock: Clock, send: (value: unknown) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Calls a service. `ok` is false if there is no such service; undefined: no response within CALL_MS_MAX. */
  call(service: string, args: Record<string, unknown>): Promise<Answer | undefined> {
    if (this.#ended) return Promise.resolve(undefined);
    const id = `call:${(this.#count += 1)}`;
    return new Promise((resolve) => {
      const end = (answer: Answer | undefined): void => {
        timer.cancel();
        this.#waiting.delete(id);
        resolve(answer);
      };
      const timer = this.#clock.setTimer(CALL_MS_MAX, () => end(undefined));
      this.#waiting.set(id, end);
      this.#send({ op: "call_service", id, service, args });
    });
  }

  /** Processes a `service_response`. */
  take({ id, result, values }: Record<string, unknown>): void {
    const failed = result === false || typeof values !== "object" || values === null;
    this.#waiting.get(String(id))?.(failed ? { ok: false } : { ok: true, values: values as Record<string, unknown> });
  }

  /** Ends all calls without a response, pending and future ones. */
  end(): void {
    this.#ended = true;
    for (const answer of this.#waiting.values()) answer(undefined);
  }
}
