// Where one is on the page: the text, the step, the order, and an adaptation that is under way. A reload comes back to it.

export const ME = "me"; // the annotator who gave no name
const EMPTY = {
  annotator: ME,
  text: "",
  source: "text", // or "labelled", the id of a file, or all "files"
  step: "text",
  order: "given",
  show: "all",
  type: "",
  job: null,
  compared: null,
};
const SHARED = ["job", "compared"]; // between the tabs of a browser; the rest is each tab's own until it is opened anew

/** The parts are properties; "change" is told when one has changed, a shared one in another tab too. */
export class PageState extends EventTarget {
  constructor(store) {
    super();
    this.store = store;
    for (const [part, empty] of Object.entries(EMPTY)) this[part] = store.read(`page/${part}`) ?? empty;
    store.watch((name) => {
      const part = SHARED.find((shared) => name === `page/${shared}`);
      if (!part) return;
      this[part] = store.read(name) ?? EMPTY[part];
      this.dispatchEvent(new Event("change"));
    });
  }

  remember(values) {
    Object.assign(this, values);
    for (const [part, value] of Object.entries(values)) this.store.write(`page/${part}`, value);
    this.dispatchEvent(new Event("change"));
  }
}
