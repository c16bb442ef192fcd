/** Lets the event loop process other work. Resolves in its next turn. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
