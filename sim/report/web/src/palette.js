// One colour a stage, everywhere. A hue a place where time passes (after Okabe and Ito: they stay
// apart for colour-blind eyes), a shade a stage, each with a contrast of 3 or more against the light
// and the dark ground; names stand beside every colour.

const places = {
  'lane (GPU)': {
    enqueue: '#7681cb',
    lookup: '#5269da',
    slot: '#5d81d6',
    wqe: '#2c7ae1',
    'order.fence': '#1072c2',
    'order.publish': '#2895d9',
    'order.lock': '#0f84ba',
    'doorbell.record': '#6489b4',
    'doorbell.register': '#7d91ce',
  },
  'proxy (CPU)': {
    proxy_complete: '#8f78be',
    proxy_notice: '#8e60c3',
    proxy_post: '#ad7dce',
  },
  'PCIe and NIC': {
    mmio: '#8c6b07',
    nic_schedule: '#a57a18',
    wqe_fetch: '#c68605',
    translate: '#b26026',
    payload_fetch: '#e15e06',
  },
  wire: {
    transmit: '#067b5e',
    wire: '#0c9064',
    receive: '#29a57c',
  },
  'far memory': {
    payload_write: '#677e20',
    visible: '#7c9b34',
  },
  completion: {
    ack: '#b04388',
    cqe_write: '#c85b95',
    poll: '#d174aa',
  },
  host: {
    staging: '#8f776a',
    kernel_end: '#737373',
    host_notice: '#848484',
    launch: '#998f7d',
  },
};

const stageColours = new Map();
const stagePlaces = new Map();
for (const [place, stages] of Object.entries(places))
  for (const [stage, colour] of Object.entries(stages)) {
    stageColours.set(stage, colour);
    stagePlaces.set(stage, place);
  }

const wholes = { completion: '#c85b95', put: '#5d81d6', end_to_end: '#777f88' };

export const stageColour = (stage) => stageColours.get(stage) ?? wholes[stage] ?? '#777f88';
export const stagePlace = (stage) => stagePlaces.get(stage) ?? '';
/** Told by the page's data; a stage that is new here is grey rather than missing. */
export const stages = new Set(stageColours.keys());
export const isStage = (name) => stages.has(name);

/** For lines that are no stages: Okabe and Ito's, without black and yellow. */
export const lines = ['#0576c6', '#e15e06', '#08936c', '#d071a8', '#ac7f04', '#449ad0', '#9661c3', '#868686'];
/** Where there are more lines than colours, they come again in another style. */
export const styles = ['solid', 'dashed', 'dotted'];
export const symbols = ['circle', 'rect', 'triangle', 'diamond', 'emptyCircle', 'emptyRect', 'emptyTriangle', 'pin'];

export const evidenceClasses = ['measured', 'published', 'derived', 'fitted', 'assumed'];
export const evidenceColours = {
  measured: '#077f61',
  published: '#0a76c3',
  derived: '#539ac6',
  fitted: '#c38405',
  assumed: '#d04f17',
};
export const roleColours = { predicted: '#0579cb', placement: '#08936c', fit: '#ac7f04' };
