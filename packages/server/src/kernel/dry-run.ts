/** Returns whether a body, or the policy in it, asks for a dry run. */
export function asksDryRun(body: unknown): boolean {
  const { dry_run, rollout } = (body ?? {}) as { dry_run?: boolean; rollout?: { dry_run?: boolean } };
  return dry_run === true || rollout?.dry_run === true;
}
