export { createStreams, type Streams } from "./streams.ts";
