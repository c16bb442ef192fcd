export { announce, type AnnouncedChange } from "./announce.ts";
export { createEventStreams, type EventStreams } from "./streams.ts";
