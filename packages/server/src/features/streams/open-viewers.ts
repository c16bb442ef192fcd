import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import type { OpenStream } from "./store.ts";
import { endOf, type StreamBook } from "./tell.ts";
import type { Viewer } from "./viewer.ts";

/** A viewer that does not answer a close within this time is disconnected. */
const DRAIN_TIMEOUT_MS = 2_000;

/** The viewers of this server, from the upgrade until the audit entry of their end is written. */
export class OpenViewers {
  readonly all = new Set<Viewer>();
  readonly #book: StreamBook;
  /** Running writes of ends. */
  readonly #ending = new Set<Promise<void>>();

  constructor(book: StreamBook) {
    this.#book = book;
  }

  add(viewer: Viewer, open_stream: OpenStream): void {
    this.all.add(viewer);
    viewer.ws.once("close", (code) => {
      this.all.delete(viewer);
      const end = this.#book
        .closed(open_stream, endOf(viewer.ended_with, code, viewer.broke_protocol))
        .finally(() => this.#ending.delete(end));
      this.#ending.add(end);
    });
  }

  /** Closes all viewers. Resolves when they have left and their ends are written. */
  async drain({ clock }: Plane): Promise<void> {
    const closed = Array.from(this.all, ({ ws }) => new Promise<void>((resolve) => ws.once("close", () => resolve())));
    for (const viewer of this.all) viewer.close(CLOSE.draining, "the server is stopping");
    const cut = clock.setTimer(DRAIN_TIMEOUT_MS, () => {
      for (const { ws } of this.all) ws.terminate();
    });
    await Promise.all(closed);
    cut.cancel();
    await Promise.all(this.#ending);
  }
}
