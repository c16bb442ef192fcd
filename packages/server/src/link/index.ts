export type { Admission, Link, LinkHandlers, LinkSettings, Session } from "./contract.ts";
