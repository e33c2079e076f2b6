import { csrfToken } from "./csrf";

/** The page where people sign in; they come back to where they were. */
export function goToLogin(): void {
  const next = encodeURIComponent(location.pathname + location.search);
  location.assign(`/accounts/login/?next=${next}`);
}

/** The page brings the form; its token is as old as the page is. */
export function signOut(): void {
  const form = document.querySelector<HTMLFormElement>("form#sign-out");
  const token = form?.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]");
  if (token) {
    token.value = csrfToken();
  }
  form?.submit();
}
