/** The extension's icon: a chip, drawn in the theme's colour. */
import { LabIcon } from '@jupyterlab/ui-components';

const CHIP = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="none" stroke="#616161" stroke-width="2">
    <rect x="6" y="6" width="12" height="12" rx="1.5"/><rect x="10" y="10" width="4" height="4"/>
    <path d="M9 6V2.5M15 6V2.5M9 21.5V18M15 21.5V18M6 9H2.5M6 15H2.5M21.5 9H18M21.5 15H18"/>
  </g>
</svg>`;

export const deviceIcon = new LabIcon({
  name: 'torch-fl:device',
  svgstr: CHIP.replace('class="jp-icon3" fill="none" stroke="#616161"', 'class="torch-fl-chip" fill="none"')
});
