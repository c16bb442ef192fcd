import { MinorGc } from "@roamfleet/protocol/minor-gc";

/** For a heap of 40 MB or more. A collection takes about 1 ms, so a lower threshold would cost more than it saves. */
export const minor_gc = new MinorGc(12 * 1024 * 1024);
