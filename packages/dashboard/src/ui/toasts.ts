import { Toast } from "@base-ui/react/toast";
import { ApiError } from "@roamfleet/sdk/browser";

/** Shown by <Toasts> of the shell. */
export const toasts = Toast.createToastManager();

export function tellDone(text: string): void {
  toasts.add({ title: text, type: "done" });
}

/** An action that was refused or got no answer: it stays until it was read. */
export function tellError(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  const request = error instanceof ApiError && error.request_id !== undefined ? `request ${error.request_id}` : undefined;
  toasts.add({ title: text, ...(request === undefined ? {} : { description: request }), type: "error", timeout: 0, priority: "high" });
}
