/**
 * Live profiles: one store for each profile id, fed by comms that kernels open to `torch_fl.live`
 * and by bundles that renderers hand in. Every view of a profile reads the same store.
 */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { ProfileStore, type LiveMessage } from '../../fl_widgets/src/core';

export const COMM_TARGET = 'torch_fl.live';

interface Entry {
  store: ProfileStore;
  users: number;
  comm: Kernel.IComm | null;
}

export interface ILiveProfiles {
  /** The store of a profile; `release` must be called as often. */
  acquire(profile: string): ProfileStore;
  release(profile: string): void;
  /** True while a kernel sends batches of this profile. */
  isLive(profile: string): boolean;
}

export const ILiveProfiles = new Token<ILiveProfiles>('torch-fl-lab:ILiveProfiles', 'Stores of the profiles that are on the page.');

export class LiveProfiles implements ILiveProfiles {
  private readonly entries = new Map<string, Entry>();
  private readonly kernels = new WeakSet<Kernel.IKernelConnection>();

  acquire(profile: string): ProfileStore {
    return this.hold(profile).store;
  }

  release(profile: string): void {
    const entry = this.entries.get(profile);
    if (entry && --entry.users <= 0) {
      this.entries.delete(profile);
    }
  }

  isLive(profile: string): boolean {
    return Boolean(this.entries.get(profile)?.comm);
  }

  /** Answers the comms of this kernel; later calls for the same connection do nothing. */
  serve(kernel: Kernel.IKernelConnection | null | undefined): void {
    if (!kernel || this.kernels.has(kernel) || !kernel.handleComms) {
      return;
    }
    this.kernels.add(kernel);
    kernel.registerCommTarget(COMM_TARGET, (comm, open) => this.opened(kernel, comm, open));
  }

  private opened(kernel: Kernel.IKernelConnection, comm: Kernel.IComm, open: KernelMessage.ICommOpenMsg): void {
    const profile = String((open.content.data as { profile?: unknown }).profile ?? '');
    if (profile === '') {
      console.warn(`torch_fl: a ${COMM_TARGET} comm named no profile`);
      return;
    }
    const entry = this.hold(profile);
    entry.comm = comm;
    const ended = (cut: boolean) => {
      kernel.statusChanged.disconnect(watch);
      kernel.disposed.disconnect(onDisposed);
      if (entry.comm === comm) {
        entry.comm = null;
        if (cut) {
          entry.store.cutOff();
        }
        this.release(profile);
      }
    };
    const watch = (_: Kernel.IKernelConnection, status: Kernel.Status) => {
      if (status === 'dead' || status === 'restarting' || status === 'autorestarting' || status === 'terminating') {
        ended(true);
      }
    };
    const onDisposed = () => ended(false);
    kernel.statusChanged.connect(watch);
    kernel.disposed.connect(onDisposed);
    comm.onMsg = msg => this.message(entry.store, msg);
    comm.onClose = () => ended(false);
    // Tells the kernel that an extension listens, so that later cells need no widget for this page.
    comm.send({ type: 'opened' });
  }

  private message(store: ProfileStore, msg: KernelMessage.ICommMsgMsg): void {
    const content = msg.content.data as unknown as LiveMessage;
    try {
      store.receive(content, (msg.buffers ?? []) as (ArrayBuffer | ArrayBufferView)[]);
    } catch (error) {
      console.error('torch_fl: a live batch could not be read', error);
    }
  }

  private hold(profile: string): Entry {
    let entry = this.entries.get(profile);
    if (!entry) {
      entry = { store: new ProfileStore(), users: 0, comm: null };
      this.entries.set(profile, entry);
    }
    entry.users++;
    return entry;
  }
}

export const livePlugin: JupyterFrontEndPlugin<ILiveProfiles> = {
  id: 'torch-fl-lab:live',
  description: 'Receives live profiles from the kernels of notebooks.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: ILiveProfiles,
  activate: (_app: JupyterFrontEnd, tracker: INotebookTracker): ILiveProfiles => {
    const profiles = new LiveProfiles();
    const follow = (panel: NotebookPanel) => {
      const { sessionContext } = panel;
      profiles.serve(sessionContext.session?.kernel);
      sessionContext.kernelChanged.connect((_, change) => profiles.serve(change.newValue));
    };
    tracker.forEach(follow);
    tracker.widgetAdded.connect((_, panel) => follow(panel));
    return profiles;
  }
};
