/** A deployment with the deployment that it retries or rolls back, if any, and its order number. */
export interface Origin {
  id: string;
  retry_of: string | null;
  rollback_of: string | null;
  order_number: number;
}

/**
 * Returns the order number from which a deployment counts for its fleet: for a retry or rollback, that of its source. Otherwise a retry for
 * the few robots on which an old deployment failed would override what the whole fleet got later.
 */
export function speaksSince(origins: ReadonlyMap<string, Origin>, id: string): number | null {
  const own = origins.get(id);
  const source = own?.retry_of ?? own?.rollback_of ?? null;
  return (source === null ? null : speaksSince(origins, source)) ?? own?.order_number ?? null;
}

/** Returns the deployment, the one that it retries, the one which that retries, and so on. */
export function repeatedBy(origins: ReadonlyMap<string, Origin>, id: string): string[] {
  const source = origins.get(id)?.retry_of ?? null;
  return source === null ? [id] : [id, ...repeatedBy(origins, source)];
}
