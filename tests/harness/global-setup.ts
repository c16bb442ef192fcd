/** Runs once before all test files. */
export async function globalSetup(): Promise<void> {}

/** Runs once after all test files, failed or not. */
export async function globalTeardown(): Promise<void> {}
