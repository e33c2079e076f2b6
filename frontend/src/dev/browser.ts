/** What jsdom lacks, for tests of components: nothing is measured, the pointer is a mouse. */
class Nothing {
  observe(): void {
    return;
  }
  unobserve(): void {
    return;
  }
  disconnect(): void {
    return;
  }
}

if (typeof window !== "undefined") {
  window.ResizeObserver = Nothing;
  window.matchMedia = (media) =>
    Object.assign(new EventTarget(), { media, matches: false, onchange: null }) as MediaQueryList;
}
