import type { Activity } from "@roamfleet/clock";
import type { JsonValue } from "@roamfleet/protocol";
import type { EngineLog } from "../log.ts";
import { type Bus, type BusListener, MalformedHint } from "./bus.ts";

/** Maximum queued messages, reached only if the event loop is blocked. Further messages are dropped, and `onGap` listeners are called. */
const QUEUE_MESSAGES_MAX = 100_000;

export interface LocalBus extends Bus {
  /** Calls the `onGap` listeners. The caller detected that messages of other nodes were lost. */
  lose(): void;
}

interface Listened {
  log: EngineLog;
  /** Counts each message as pending until its listeners have completed. */
  activity?: Activity | undefined;
}

/** Creates a bus within one process. Messages are lost only if its queue overflows; then `onGap` is called. */
export function localBus(options: Listened & { queue_messages_max?: number }): LocalBus {
  const { activity, queue_messages_max = QUEUE_MESSAGES_MAX } = options;
  const listeners = new Map<string, Set<BusListener>>();
  const gap_listeners = new Set<() => void>();
  let queue: Array<{ subject: string; message: JsonValue; end: (() => void) | undefined }> = [];
  let gap = false;
  let scheduled = false;
  let closed = false;

  function deliver(): void {
    const due = queue;
    queue = [];
    scheduled = false;
    for (const { subject, message, end } of due) {
      for (const listener of closed ? [] : [...(listeners.get(subject) ?? [])]) void tell(options, listener, message, subject);
      end?.();
    }
    if (!gap || closed) return;
    gap = false;
    for (const listener of gap_listeners) void tell(options, listener, null, "gap");
  }

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    setImmediate(deliver);
  }

  return {
    connected: true,
    lose() {
      gap = true;
      schedule();
    },
    publish(subject, message) {
      if (closed || !listeners.has(subject)) return;
      if (queue.length < queue_messages_max) queue.push({ subject, message: structuredClone(message), end: activity?.begin() });
      else gap = true;
      schedule();
    },
    subscribe(subject, listener) {
      // Wrapped so that each call creates a separate subscription: a Set stores the same function only once.
      const own: BusListener = (message, of) => listener(message, of);
      const of_subject = listeners.get(subject) ?? new Set();
      listeners.set(subject, of_subject.add(own));
      return () => {
        of_subject.delete(own);
        if (of_subject.size === 0 && listeners.get(subject) === of_subject) listeners.delete(subject);
      };
    },
    async subscribed() {},
    onGap(listener) {
      const own = (): void => listener();
      gap_listeners.add(own);
      return () => void gap_listeners.delete(own);
    },
    async close() {
      closed = true;
      listeners.clear();
      gap_listeners.clear();
      // Waits until a scheduled delivery has run. The delivery marks the queued messages as no longer pending.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

async function tell({ log, activity }: Listened, listener: BusListener, message: JsonValue, subject: string): Promise<void> {
  const end = activity?.begin();
  try {
    await listener(message, subject);
  } catch (error) {
    if (error instanceof MalformedHint) log.debug?.({ subject }, "ignored a malformed message of the bus");
    else log.error({ err: error, subject }, "a bus listener failed");
  } finally {
    end?.();
  }
}
