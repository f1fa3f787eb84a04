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
  const { instance } = await WebAssembly.instantiate(
    typeof source === "string" ? await download(source) : source);
  return new Model(instance.exports);
}

async function download(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

class Model {
  constructor(exports) {
    this.exports = exports;
    this.description = this.describe();
    if (!this.description.weights.embedded) throw new Error("compile it with --embed-weights");
    const [entry] = this.description.entries;
    this.inputs = entry.inputs;
    this.ports = [...entry.inputs, ...entry.outputs, ...entry.states];
    this.call = exports[`${entry.prefix}_run`];
    this.allocate(entry);
  }

  /** What the module says about itself: a text that ends with a zero. */
  describe() {
    const find = Object.keys(this.exports).find((name) => name.endsWith("_describe"));
    if (!find) throw new Error("the module describes no model: compile it with --shared");
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

  /** Why the values cannot be an input; nothing if they can. */
  problem({ name, dtype, shape }, values) {
    const array = ARRAYS[dtype], length = shape.reduce((product, extent) => product * extent, 1);
    const kind = dtype.endsWith("64") && dtype !== "f64" ? "bigint" : "number";
    if (!array) return `input '${name}' holds ${dtype}, for which there is no array here`;
    if (values === undefined) return `input '${name}' is missing`;
    if (!(values instanceof array || Array.isArray(values)))
      return `input '${name}' takes a ${array.name} or an array of numbers`;
    if (values.length !== length)
      return `input '${name}' takes ${length} elements (${shape.join(" x ")}), got ` +
        values.length;
    if (Array.isArray(values) && !Array.from(values).every((value) => typeof value === kind))
      return `input '${name}' takes elements of type ${kind}`;
  }

  /** Run once: every input by name, then outputs by name. Nothing runs if an input is wrong. */
  run(inputs = {}) {
    const unknown = Object.keys(inputs).find((name) => !this.inputs.some((i) => i.name === name));
    const names = this.inputs.map(({ name }) => name).join(", ");
    if (unknown !== undefined) throw new Error(`no input '${unknown}': there are ${names}`);
    const problems = this.inputs.map((input) => this.problem(input, inputs[input.name]));
    if (problems.some(Boolean)) throw new Error(problems.find(Boolean));
    for (const { name } of this.inputs) this.view(name).set(inputs[name]);
    const status = this.call(this.io, this.arena);
    if (status !== 0) throw new Error(`the model returned ${status}`);
    const { outputs } = this.description.entries[0];
    return Object.fromEntries(outputs.map(({ name }) => [name, this.view(name).slice()]));
  }
}
