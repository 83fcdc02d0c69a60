/** @file torch's own small values: element types, devices, layouts. */
import { elementNamed } from './dtypes.ts';

/** torch.float32 and so on: `name` is 'float32'. One object a name. */
export class TorchDType {
  readonly name: string;
  private static readonly known = new Map<string, TorchDType>();

  private constructor(name: string) {
    this.name = name;
  }

  /** The dtype of this name, or undefined: names may come from a peer. */
  static named(name: string): TorchDType | undefined {
    const known = TorchDType.known.get(name);
    if (known !== undefined || (elementNamed(name) === undefined && !QUANTIZED_NAMES.has(name))) return known;
    const made = new TorchDType(name);
    TorchDType.known.set(name, made);
    return made;
  }

  toString(): string {
    return `torch.${this.name}`;
  }
}

/** Types that have a name but no tensors here. */
const QUANTIZED_NAMES: ReadonlySet<string> = new Set(['quint8', 'qint8', 'qint32', 'quint4x2', 'quint2x4']);

const DEVICE = /^([a-z]{1,16})(?::(\d{1,5}))?$/;

/** torch.device. */
export class TorchDevice {
  /** 'cpu', 'cuda' … */
  readonly type: string;
  /** null: the current one of its type. */
  readonly index: number | null;

  constructor(type: string, index: number | null = null) {
    this.type = type;
    this.index = index;
  }

  /** 'cuda:0' as a device. @throws RangeError when it is none. */
  static parse(text: string): TorchDevice {
    const match = DEVICE.exec(text);
    if (match === null) throw new RangeError('no device: a type and a number, as in cuda:0');
    return new TorchDevice(match[1] as string, match[2] === undefined ? null : Number(match[2]));
  }

  toString(): string {
    return this.index === null ? this.type : `${this.type}:${this.index}`;
  }
}

/** torch.strided and so on: `name` is 'torch.strided'. */
export class TorchLayout {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  toString(): string {
    return this.name;
  }
}
