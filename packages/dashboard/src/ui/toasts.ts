import { Toast } from "@base-ui/react/toast";
import { ApiError } from "@roamfleet/sdk/browser";

/** Shown by <ToastList>. */
export const toasts = Toast.createToastManager();

export function tellDone(text: string): void {
  toasts.add({ title: text, type: "done" });
}

/** Shows the error of an action. The notification stays until it is dismissed. */
export function tellError(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  const request = error instanceof ApiError && error.request_id !== undefined ? `request ${error.request_id}` : undefined;
  toasts.add({ title: text, ...(request === undefined ? {} : { description: request }), type: "error", timeout: 0, priority: "high" });
}
