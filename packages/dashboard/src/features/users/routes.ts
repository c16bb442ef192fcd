import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";
import { ROLES, TOKEN_STATUSES, type TokensSearch, type UsersSearch } from "./search.ts";

const among = <T extends string>(values: readonly T[], value: unknown): T | undefined => values.find((one) => one === value);
const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

const usersRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/users",
  validateSearch: ({ q, role }: Record<string, unknown>): UsersSearch => ({ q: text(q), role: among(ROLES, role) }),
  component: lazyPage(() => import("./users-page.tsx"), "UsersPage"),
});
const tokensRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/users/tokens",
  validateSearch: ({ status, user_id }: Record<string, unknown>): TokensSearch => ({
    status: among(TOKEN_STATUSES, status),
    user_id: text(user_id),
  }),
  component: lazyPage(() => import("./tokens-page.tsx"), "TokensPage"),
});

export const userRoutes = [usersRoute, tokensRoute];
