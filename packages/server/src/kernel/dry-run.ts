/** Whether a body asks only what would be: it says so itself, or its policy does. */
export function asksDryRun(body: unknown): boolean {
  const { dry_run, rollout } = (body ?? {}) as { dry_run?: boolean; rollout?: { dry_run?: boolean } };
  return dry_run === true || rollout?.dry_run === true;
}
