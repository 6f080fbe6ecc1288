/** Draws `application/vnd.torch-fl.profile+json` in outputs: live while the cell runs, interactive for good after it. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';
import { ProfileView, type Bundle } from '../../fl_widgets/src/core';
import { ILiveProfiles } from './live';

export const PROFILE_MIME = 'application/vnd.torch-fl.profile+json';

/** Before ipywidgets' renderer, which has rank 0. */
const RANK = -10;

/** A bundle that says "running" but of which nothing was heard for so long is of a kernel that is gone. */
const SILENT_MS = 30_000;

let unnamed = 0;

export class RenderedProfile extends Widget implements IRenderMime.IRenderer {
  private view: ProfileView | null = null;
  private profile = '';
  private silence = 0;

  constructor(private readonly profiles: ILiveProfiles) {
    super();
    this.addClass('torch-fl-profile');
  }

  /** Called for the first bundle and for every update of the display; the view and its zoom stay. */
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const bundle = model.data[PROFILE_MIME] as unknown as Bundle;
    const profile = bundle.profile ?? (this.profile || `unnamed-${++unnamed}`);
    if (!this.view || profile !== this.profile) {
      this.drop();
      this.profile = profile;
      this.view = new ProfileView(this.profiles.acquire(profile));
      this.node.append(this.view.node);
    }
    const { store } = this.view;
    try {
      store.load(bundle);
    } catch (error) {
      this.node.replaceChildren(`This profile cannot be read: ${String(error)}`);
      console.error('torch_fl: a profile could not be read', error);
      return;
    }
    window.clearTimeout(this.silence);
    if (store.running) {
      this.silence = window.setTimeout(() => this.listen(), SILENT_MS);
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    window.clearTimeout(this.silence);
    this.drop();
    super.dispose();
  }

  private listen(): void {
    if (this.view?.store.running && !this.profiles.isLive(this.profile)) {
      this.view.store.cutOff();
    }
  }

  private drop(): void {
    if (this.view) {
      this.view.dispose();
      this.view = null;
      this.profiles.release(this.profile);
    }
  }
}

export const rendererPlugin: JupyterFrontEndPlugin<void> = {
  id: 'torch-fl-lab:renderer',
  description: 'Renders torch_fl profiles in outputs.',
  autoStart: true,
  requires: [IRenderMimeRegistry, ILiveProfiles],
  activate: (_app: JupyterFrontEnd, rendermime: IRenderMimeRegistry, profiles: ILiveProfiles): void => {
    rendermime.addFactory({ safe: true, mimeTypes: [PROFILE_MIME], createRenderer: () => new RenderedProfile(profiles) }, RANK);
  }
};
