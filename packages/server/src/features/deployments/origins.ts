/** Of which other one's robots a deployment was made, if of any, and when it began. */
export interface Origin {
  id: string;
  retry_of: string | null;
  rollback_of: string | null;
  fan_out_at: Date | null;
}

/**
 * Since when a deployment speaks for its fleet: one that was made of another one's robots, since that one began. Otherwise
 * a retry for the few robots on which an old deployment failed would outdo what the whole fleet got since.
 */
export function speaksSince(origins: ReadonlyMap<string, Origin>, id: string): Date | null {
  const own = origins.get(id);
  const source = own?.retry_of ?? own?.rollback_of ?? null;
  return (source === null ? null : speaksSince(origins, source)) ?? own?.fan_out_at ?? null;
}

/** The deployment, the one that it repeats for some of the robots, the one which that repeats, and so on. */
export function repeatedBy(origins: ReadonlyMap<string, Origin>, id: string): string[] {
  const source = origins.get(id)?.retry_of ?? null;
  return source === null ? [id] : [id, ...repeatedBy(origins, source)];
}
