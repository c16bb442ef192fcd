/** Default number of server nodes of a plane in tests, from `npm test -- --nodes N`. */
export const NODES = Number(process.env.ROAMFLEET_TEST_NODES ?? "1");

/** Returns the reason to skip a test of a single server in a run with several nodes; false if the run has one node. */
export const oneNodeOnly = (why: string): string | false => NODES > 1 && `is about one node: ${why}`;

/** A fetch with a new connection for each request, so that a balancer spreads requests over the nodes. */
export const spreadFetch: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
  headers.set("connection", "close");
  return fetch(input, { ...init, headers });
};
