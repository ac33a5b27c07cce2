// Areas without shapes, as circles. Of features the map's library makes objects, in the page and in its workers: a gigabyte
// for 160,000 blocks. These circles are drawn from arrays, as a layer of their own.

import { onSquare, placeOf } from "./places.js";

const VERTEX = `#version 300 es
  uniform mat4 u_matrix; // from places to the screen
  uniform vec2 u_pixel; // of the screen
  uniform vec2 u_radii; // pixels, of the smallest size and the largest
  uniform float u_stroke;
  uniform float u_ratio; // of the screen's dots to pixels
  in vec2 a_corner;
  in vec2 a_place;
  in float a_size;
  in vec4 a_fill;
  out vec2 v_at; // from the middle, in pixels
  out float v_radius;
  out float v_stroke;
  out vec4 v_fill;
  void main() {
    v_radius = mix(u_radii.x, u_radii.y, a_size);
    v_stroke = a_size > 0.0 ? u_stroke : 0.0;
    v_at = a_corner * (v_radius + v_stroke + 1.0 / u_ratio);
    v_fill = vec4(a_fill.rgb, 1.0) * (a_size > 0.0 ? 0.9 : 0.5);
    vec4 place = u_matrix * vec4(a_place, 0.0, 1.0);
    gl_Position = place + vec4(v_at * u_pixel * place.w, 0.0, 0.0);
  }`;
const FRAGMENT = `#version 300 es
  precision highp float;
  uniform float u_ratio;
  uniform vec4 u_line;
  in vec2 v_at;
  in float v_radius;
  in float v_stroke;
  in vec4 v_fill;
  out vec4 colour;
  void main() {
    float far = length(v_at);
    float all = clamp((v_radius + v_stroke - far) * u_ratio + 0.5, 0.0, 1.0);
    float inside = v_stroke > 0.0 ? clamp((v_radius - far) * u_ratio + 0.5, 0.0, 1.0) : 1.0;
    colour = mix(u_line, v_fill, inside) * all;
  }`;
const STROKE = 0.5; // pixels
const SMALLEST = 1.5; // pixels, the radius of an area without any

/** The parts of a colour of the style sheet, #rrggbb, of 255. */
const partsOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** A layer of the map. */
export class Circles {
  id = "circle";
  type = "custom";
  units = new Uint32Array(0); // of the circles
  line = "#000000";
  #zoom; // at which circles have their own size
  #stale = false; // whether the arrays are others than those on the graphics card

  constructor(zoom) {
    this.#zoom = zoom;
    this.#take(0);
  }

  #take(n) {
    this.places = new Float32Array(2 * n); // from the first, as single floats are too few for a whole world
    this.sizes = new Float32Array(n); // 0 to 1
    this.fills = new Uint8Array(4 * n);
  }

  /** Areas of a level, or of none; external zones are drawn otherwise. */
  setLevel(level) {
    const inside = level ? Uint32Array.from(level.codes.keys()).filter((unit) => !level.externalZones.has(unit)) : [];
    this.#take((this.units = Uint32Array.from(inside)).length);
    this.origin = this.units.length ? onSquare(placeOf(level, this.units[0])) : [0, 0];
    this.units.forEach((unit, at) => {
      const [x, y] = onSquare(placeOf(level, unit));
      this.places.set([x - this.origin[0], y - this.origin[1]], 2 * at);
    });
    this.most = Math.min(18, Math.max(4, 200 / Math.sqrt(level?.codes.length ?? 1))); // pixels
    this.#stale = true;
  }

  /** Colours and sizes of the areas, by unit. */
  paint(colourOf, sizeOf, line) {
    this.line = line;
    const known = new Map();
    const parts = (hex) => known.get(hex) ?? known.set(hex, partsOf(hex)).get(hex);
    this.units.forEach((unit, at) => {
      this.fills.set(parts(colourOf(unit)), 4 * at);
      this.sizes[at] = sizeOf(unit);
    });
    this.#stale = true;
  }

  /** Radii of the smallest size and the largest, which grow to four times as much as one zooms in by four levels. */
  #radii(zoom) {
    const part = (1.6 ** (zoom - this.#zoom) - 1) / (1.6 ** 4 - 1);
    const times = 1 + 3 * Math.min(1, Math.max(0, part));
    return [SMALLEST * times, this.most * times];
  }

  /** The unit of the circle that is at a place, or at most so many pixels from it; of several the one whose middle is nearest. */
  at({ lng, lat }, zoom, reach) {
    const [x, y] = onSquare([lng, lat]);
    const scale = 512 * 2 ** zoom;
    const [least, most] = this.#radii(zoom);
    let [nearest, found] = [Infinity, null];
    for (let at = 0; at < this.units.length; at++) {
      const away = Math.hypot(x - this.origin[0] - this.places[2 * at], y - this.origin[1] - this.places[2 * at + 1]) * scale;
      if (away < nearest && away <= least + (most - least) * this.sizes[at] + reach) [nearest, found] = [away, this.units[at]];
    }
    return found;
  }

  onAdd(map, gl) {
    this.map = map;
    const program = (this.program = gl.createProgram());
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    this.lists = gl.createVertexArray();
    gl.bindVertexArray(this.lists);
    const attribute = (name, size, type, normalized, each) => {
      const [buffer, at] = [gl.createBuffer(), gl.getAttribLocation(program, name)];
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, type, normalized, 0, 0);
      gl.vertexAttribDivisor(at, each);
      return buffer;
    };
    attribute("a_corner", 2, gl.FLOAT, false, 0);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
    this.buffers = {
      places: attribute("a_place", 2, gl.FLOAT, false, 1),
      sizes: attribute("a_size", 1, gl.FLOAT, false, 1),
      fills: attribute("a_fill", 4, gl.UNSIGNED_BYTE, true, 1),
    };
    gl.bindVertexArray(null);
    this.#stale = true;
  }

  render(gl, { defaultProjectionData: { mainMatrix } }) {
    if (!this.units.length) return;
    const { map, program } = this;
    if (this.#stale) {
      for (const [name, buffer] of Object.entries(this.buffers)) {
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.bufferData(gl.ARRAY_BUFFER, this[name], gl.DYNAMIC_DRAW);
      }
      this.#stale = false;
    }
    const [x, y] = this.origin;
    const matrix = Float32Array.from(mainMatrix);
    for (let i = 0; i < 4; i++) matrix[12 + i] = mainMatrix[i] * x + mainMatrix[4 + i] * y + mainMatrix[12 + i];
    const { clientWidth, clientHeight, width } = map.getCanvas();
    const uniform = (name) => gl.getUniformLocation(program, name);
    gl.useProgram(program);
    gl.uniformMatrix4fv(uniform("u_matrix"), false, matrix);
    gl.uniform2f(uniform("u_pixel"), 2 / clientWidth, 2 / clientHeight);
    gl.uniform2f(uniform("u_radii"), ...this.#radii(map.getZoom()));
    gl.uniform1f(uniform("u_stroke"), STROKE);
    gl.uniform1f(uniform("u_ratio"), width / clientWidth);
    gl.uniform4f(uniform("u_line"), ...partsOf(this.line).map((part) => part / 255), 1);
    gl.bindVertexArray(this.lists);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.units.length);
    gl.bindVertexArray(null);
  }
}
