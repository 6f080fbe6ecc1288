/** The build inside a self-contained report.html: draws the bundle that the page holds into `#torch-fl`. */
import { ProfileStore, ProfileView, type Bundle } from '../core';

const BUNDLE_ID = 'torch-fl-bundle';
const HOME_ID = 'torch-fl';

function draw(): void {
  const home = document.getElementById(HOME_ID);
  const data = document.getElementById(BUNDLE_ID);
  if (!home || !data) {
    console.error(`torch_fl report: the page needs #${HOME_ID} and #${BUNDLE_ID}`);
    return;
  }
  const store = new ProfileStore();
  try {
    store.load(JSON.parse(data.textContent ?? '') as Bundle);
  } catch (error) {
    home.textContent = `The profile in this page cannot be read: ${String(error)}`;
    return;
  }
  home.replaceChildren(new ProfileView(store).node);
}

if (document.readyState === 'loading') {
  document.addEventListener('DOMContentLoaded', draw);
} else {
  draw();
}
