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
