/** What styles that scripts make must carry, by the policy of this page. Undefined on the development server. */
export const pageNonce: string | undefined = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce || undefined;
