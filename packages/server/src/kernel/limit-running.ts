import { httpError } from "./fault.ts";
import { type PlaneState, planeState } from "./kernel-plane.ts";

interface Context {
  state: PlaneState;
}

/** Returns a function that runs work of an org, and throws 429 if the org already runs `max` such works on this server. */
export function limitRunning(what: string, max: number): <T>(plane: Context, org_id: string, work: () => Promise<T>) => Promise<T> {
  const runningOf = planeState((_: Context) => new Map<string, number>());
  return async (plane, org_id, work) => {
    const of_org = runningOf(plane);
    const running = of_org.get(org_id) ?? 0;
    if (running >= max) throw httpError(429, `the org already runs ${max} ${what}; try again in 1 s`, { "retry-after": "1" });
    of_org.set(org_id, running + 1);
    try {
      return await work();
    } finally {
      const left = (of_org.get(org_id) ?? 1) - 1;
      if (left === 0) of_org.delete(org_id);
      else of_org.set(org_id, left);
    }
  };
}
