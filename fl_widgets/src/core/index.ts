/** What the three builds use of the drawing core. */
export { ProfileStore } from './store';
export { ProfileView, type TabName } from './profile_view';
export { el, fill, button, setText, Disposer } from './dom';
export { ensureStyle } from './style';
export { isDark, watchTheme } from './theme';
export { vendorLetters, vendorMark } from './marks';
export { formatBytes, formatBytesOf, formatShare } from './format';
export type { BatchMessage, Bundle, DeviceInfo, LiveMessage } from './types';
