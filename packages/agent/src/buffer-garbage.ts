import { BufferGarbage } from "@roamfleet/protocol/buffer-garbage";

/** For a heap of about 13 MB, which V8 collects as a whole for each 8 MB of buffers. */
export const received_buffers = new BufferGarbage(2 * 1024 * 1024);
