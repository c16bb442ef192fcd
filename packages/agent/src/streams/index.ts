import type { StreamSource } from "@robofleet/protocol/link";
import { echo } from "./echo.ts";

/** Kinds of streams that this agent serves: the server opens a channel with the kind's name. */
export const streamSources = (): ReadonlyMap<string, StreamSource> => new Map([["echo", echo]]);
