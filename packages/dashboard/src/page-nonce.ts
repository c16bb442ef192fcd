/** The nonce that the content security policy requires for style elements created by scripts. Undefined on the development server. */
export const pageNonce: string | undefined = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce || undefined;
