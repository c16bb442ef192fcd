/** The deployment of whose robots another one was made, if any, and its place in the order of all. */
export interface Origin {
  id: string;
  retry_of: string | null;
  rollback_of: string | null;
  order_number: number;
}

/**
 * The order number from which a deployment counts for its fleet: for a retry or rollback, that of the deployment it was made
 * of. Otherwise a retry for the few robots on which an old deployment failed would override what the whole fleet got since.
 */
export function speaksSince(origins: ReadonlyMap<string, Origin>, id: string): number | null {
  const own = origins.get(id);
  const source = own?.retry_of ?? own?.rollback_of ?? null;
  return (source === null ? null : speaksSince(origins, source)) ?? own?.order_number ?? null;
}

/** The deployment, the one that it repeats for some of the robots, the one which that repeats, and so on. */
export function repeatedBy(origins: ReadonlyMap<string, Origin>, id: string): string[] {
  const source = origins.get(id)?.retry_of ?? null;
  return source === null ? [id] : [id, ...repeatedBy(origins, source)];
}
