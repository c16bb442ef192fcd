import { BufferGarbage } from "@roamfleet/protocol/buffer-garbage";

/** For a heap of 40 MB and more. A smaller number costs more collections, each of which takes about 1 ms. */
export const received_buffers = new BufferGarbage(12 * 1024 * 1024);
