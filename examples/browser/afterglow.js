// Loads a model that Afterglow compiled for WebAssembly, and runs it.
//
//     const model = await load("build/digits.wasm");
//     const { probabilities } = model.run({ image: new Float32Array(64) });
//
// Nothing else is needed: the weights are in the module, and it asks for nothing from outside.

const PAGE = 65536;
const WORD = 4;

const ARRAYS = {
  f32: Float32Array, f64: Float64Array,
  i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array,
  bool: Uint8Array,
};

/** The model in a file, or in bytes that are here already. */
export async function load(source) {
  const bytes = typeof source === "string" ? await (await fetch(source)).arrayBuffer() : source;
  const { instance } = await WebAssembly.instantiate(bytes);
  return new Model(instance.exports);
}

class Model {
  constructor(exports) {
    this.exports = exports;
    this.description = this.describe();
    const [entry] = this.description.entries;
    this.ports = [...entry.inputs, ...entry.outputs, ...entry.states];
    this.call = exports[`${entry.prefix}_run`];
    this.allocate(entry);
  }

  /** What the module says about itself: a text that ends with a zero. */
  describe() {
    const find = Object.keys(this.exports).find((name) => name.endsWith("_describe"));
    const bytes = new Uint8Array(this.exports.memory.buffer, this.exports[find]());
    return JSON.parse(new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0))));
  }

  /** Memory for a run, behind all that is there: addresses, tensors, arena. */
  allocate(entry) {
    const { memory } = this.exports;
    let top = memory.buffer.byteLength;
    const take = (size) => {
      const address = top;
      top += Math.ceil(size / entry.arena_align) * entry.arena_align;
      return address;
    };
    this.io = take(this.ports.length * WORD);
    this.places = this.ports.map((port) => take(port.bytes));
    this.arena = take(entry.arena_bytes);
    memory.grow(Math.ceil((top - memory.buffer.byteLength) / PAGE));
    new Uint32Array(memory.buffer, this.io, this.places.length).set(this.places);
  }

  /** The memory of an input, output or state, as an array. */
  view(name) {
    const index = this.ports.findIndex((port) => port.name === name);
    const { dtype, bytes } = this.ports[index];
    const array = ARRAYS[dtype];
    const length = bytes / array.BYTES_PER_ELEMENT;
    return new array(this.exports.memory.buffer, this.places[index], length);
  }

  /** Run once: inputs by name, then outputs by name. */
  run(inputs) {
    for (const [name, values] of Object.entries(inputs)) this.view(name).set(values);
    const status = this.call(this.io, this.arena);
    if (status !== 0) throw new Error(`the model returned ${status}`);
    const { outputs } = this.description.entries[0];
    return Object.fromEntries(outputs.map(({ name }) => [name, this.view(name).slice()]));
  }
}
