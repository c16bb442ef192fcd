import "./ui/theme.css";
import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./api/query-client.ts";
import { pageNonce } from "./page-nonce.ts";
import { router } from "./router.ts";
import { followTheme } from "./shell/theme.ts";

const RELOADED = "robofleet.reloaded";

// The server was updated while this page was open: the chunk that it wants is gone. Once, then it is an error like any other.
window.addEventListener("vite:preloadError", (event) => {
  if (sessionStorage.getItem(RELOADED) !== null) return;
  sessionStorage.setItem(RELOADED, "1");
  event.preventDefault();
  window.location.reload();
});
router.subscribe("onResolved", () => sessionStorage.removeItem(RELOADED));

followTheme();
createRoot(document.querySelector("#root")!).render(
  <StrictMode>
    <CSPProvider {...(pageNonce === undefined ? {} : { nonce: pageNonce })}>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
