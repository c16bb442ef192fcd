import { Toast } from "@base-ui/react/toast";
import { ApiError } from "@roamfleet/sdk/browser";
import { X } from "lucide-react";
import { useEffect, useRef } from "react";

/** The notifications that <ToastList> shows. */
const toasts = Toast.createToastManager();

export function notifyDone(text: string): void {
  toasts.add({ title: text, type: "done" });
}

/** Shows the error of an action. The notification stays until it is dismissed. */
export function notifyError(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  const request = error instanceof ApiError && error.request_id !== undefined ? `request ${error.request_id}` : undefined;
  toasts.add({ title: text, ...(request === undefined ? {} : { description: request }), type: "error", timeout: 0, priority: "high" });
}

/**
 * Shows notifications in a strip below the page, announced by screen readers. The strip takes height from the page, and dialogs leave space
 * for it, so that no notification covers a button.
 */
export function ToastList() {
  const strip = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      document.documentElement.style.setProperty("--toasts", `${Math.ceil(entry?.borderBoxSize[0]?.blockSize ?? 0)}px`);
    });
    if (strip.current !== null) observer.observe(strip.current);
    return () => observer.disconnect();
  }, []);
  return (
    <Toast.Provider toastManager={toasts} limit={4}>
      <div ref={strip} className="relative z-50 max-h-[40dvh] shrink-0 overflow-y-auto">
        <Toast.Viewport className="ml-auto flex w-full max-w-md flex-col gap-2 px-4 has-[*]:py-2">
          <List />
        </Toast.Viewport>
      </div>
    </Toast.Provider>
  );
}

function List() {
  const { toasts: shown } = Toast.useToastManager();
  return shown.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      data-toast
      className={`flex items-start gap-2 rounded-md border bg-raised p-3 shadow-raised ${toast.type === "error" ? "border-bad" : "border-line"}`}
    >
      <div className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        <Toast.Title className={toast.type === "error" ? "text-bad" : ""} />
        <Toast.Description className="text-xs text-muted" />
      </div>
      <Toast.Close aria-label="Dismiss" className="rounded p-1 text-muted hover:bg-hover hover:text-ink">
        <X size={14} aria-hidden />
      </Toast.Close>
    </Toast.Root>
  ));
}
