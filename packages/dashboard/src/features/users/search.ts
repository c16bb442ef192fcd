export const ROLES = ["viewer", "operator", "admin"] as const;
export const TOKEN_STATUSES = ["active", "expired", "revoked"] as const;

export interface UsersSearch {
  q?: string | undefined;
  role?: (typeof ROLES)[number] | undefined;
}
export interface TokensSearch {
  status?: (typeof TOKEN_STATUSES)[number] | undefined;
  user_id?: string | undefined;
}
