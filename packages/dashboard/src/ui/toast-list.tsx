import { Toast } from "@base-ui/react/toast";
import { X } from "lucide-react";
import { toasts } from "./toasts.ts";

/** Short messages in the corner, read out as they come. */
export function ToastList() {
  return (
    <Toast.Provider toastManager={toasts} limit={4}>
      <Toast.Portal>
        <Toast.Viewport className="fixed right-4 bottom-4 z-50 flex w-[calc(100vw-2rem)] max-w-sm flex-col gap-2">
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function List() {
  const { toasts: shown } = Toast.useToastManager();
  return shown.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
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
