export { ticketRoutes } from "./tickets.ts";
export { createStreams, type Streams } from "./streams.ts";
