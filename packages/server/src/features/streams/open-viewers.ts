import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import type { OpenStream } from "./store.ts";
import { endOf, type StreamBook } from "./tell.ts";
import type { Viewer } from "./viewer.ts";

/** A viewer that does not answer a close in this time is cut. */
const DRAIN_TIMEOUT_MS = 2_000;

/** The viewers of this server, from the upgrade until their end is in the audit. */
export class OpenViewers {
  readonly all = new Set<Viewer>();
  readonly #book: StreamBook;
  /** Ends that are being written down. */
  readonly #ending = new Set<Promise<void>>();

  constructor(book: StreamBook) {
    this.#book = book;
  }

  add(viewer: Viewer, told: OpenStream): void {
    this.all.add(viewer);
    viewer.ws.once("close", (code) => {
      this.all.delete(viewer);
      const end = this.#book.closed(told, endOf(viewer.ended_with, code, viewer.broke_protocol)).finally(() => this.#ending.delete(end));
      this.#ending.add(end);
    });
  }

  /** Sends all away, and resolves when they have gone and that is written. */
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
