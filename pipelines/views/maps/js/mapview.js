// The map itself: MapLibre GL JS draws areas, flows and the selection; there is no background map, which would have
// to be fetched.

import { Circles } from "./circles.js";
import { EVERYBODY } from "./data.js";
import { byId, text } from "./dom.js";
import { totalsOf } from "./flows.js";
import { labelFeatures } from "./labels.js";
import { say } from "./phrases.js";
import { MOST_ZOOM, RADIANS, areaName, extentOf, isElsewhere, placeOf, standingFor, standsFor } from "./places.js";
import { classOf, colour, differenceColour, largestInside, lineWidth, rampColours } from "./scale.js";

const NOTHING = { type: "FeatureCollection", features: [] };

const READ = { willReadFrequently: true }; // not drawn by the graphics card, from which reading takes a while

export function pointFeature(level, unit, properties = {}) {
  return { type: "Feature", id: unit, properties, geometry: { type: "Point", coordinates: placeOf(level, unit) } };
}

const hasShape = (level, unit) => level.shapes?.features.some(({ id }) => id === unit) ?? false;

/** Whether the map has no room for names beside the region. */
const isNarrow = () => byId("map").clientWidth <= 650;
/** Whether the map lies above the panel, and its legend is closed, as the style sheet has it. */
export const isSmall = () => window.innerWidth <= 800;

const zoneName = (level, unit) => (isElsewhere(level, unit) ? say("elsewhere_short") : areaName(level, unit));

/** Some external zones of a level as points on their ring, each with the side on which its name has room. */
function zoneFeatures(data, level, units) {
  const places = [...level.externalZones.keys()].map((unit) => placeOf(level, unit));
  const ends = (axis) => [Math.min(...places.map((place) => place[axis])), Math.max(...places.map((place) => place[axis]))];
  const [[west, east], [south, north]] = [ends(0), ends(1)];
  const [homes, works] = ["home", "work"].map((place) => totalsOf(data, place, level, EVERYBODY));
  const features = units.map((unit) => {
    const [x, y] = placeOf(level, unit);
    const [right, top] = [(2 * x - west - east) / (east - west || 1), (2 * y - south - north) / (north - south || 1)];
    const beside = Math.abs(right) * 0.98 > Math.abs(top) && !isNarrow(); // in a corner a name has room above or below
    const anchor = beside ? (right < 0 ? "right" : "left") : top < 0 ? "top" : "bottom";
    const jobs = standingFor(level, unit).reduce((sum, each) => sum + homes[each] + works[each], 0);
    return pointFeature(level, unit, { name: zoneName(level, unit), anchor, jobs });
  });
  return features;
}

/** A name as an image: fonts of the map's library would have to be fetched. */
function nameImage(name, size = 24) {
  const canvas = document.createElement("canvas");
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", READ));
  const font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  context.font = font;
  [canvas.width, canvas.height] = [Math.ceil(context.measureText(name).width) + 12, 36];
  Object.assign(context, { font, textBaseline: "middle", lineJoin: "round", lineWidth: 6 });
  Object.assign(context, { strokeStyle: colour("water"), fillStyle: colour("ink") });
  context.strokeText(name, 6, 18);
  context.fillText(name, 6, 18);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** A bow from home to work, so that the two directions between two places do not hide each other. */
function bow([x1, y1], [x2, y2]) {
  const squeeze = Math.cos(((y1 + y2) / 2) * RADIANS);
  const [dx, dy] = [(x2 - x1) * squeeze, y2 - y1];
  const middle = [(x1 + x2) / 2 + (0.18 * dy) / squeeze, (y1 + y2) / 2 - 0.18 * dx];
  return Array.from({ length: 21 }, (_, i) => {
    const t = i / 20;
    const [a, b, c] = [(1 - t) ** 2, 2 * t * (1 - t), t ** 2];
    return [a * x1 + b * middle[0] + c * x2, a * y1 + b * middle[1] + c * y2];
  });
}

/** The middle of a bow with the compass direction in which it passes there. */
function arrowOn(line, properties) {
  const [[x1, y1], middle, [x2, y2]] = [line[0], line[(line.length - 1) / 2], line.at(-1)];
  const turn = Math.atan2((x2 - x1) * Math.cos(middle[1] * RADIANS), y2 - y1) / RADIANS;
  return { type: "Feature", properties: { ...properties, turn }, geometry: { type: "Point", coordinates: middle } };
}

/** A triangle that points north, to be coloured by the map. */
function arrowImage() {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [32, 32];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", READ));
  context.fill(new Path2D("M 16 2 L 29 29 L 16 23 L 3 29 Z"));
  return context.getImageData(0, 0, 32, 32);
}

/** Room for the legend, of this width, and for the names of external zones, where there is room. */
function paddingOf(data, legend = isSmall() ? 30 : 248) {
  const zones = data.externalZones.size > 0;
  const [names, lines] = [!zones ? 0 : !isNarrow() ? 50 : isSmall() ? 18 : 0, zones ? 14 : 0];
  return { top: (isSmall() ? 52 : 24) + lines, bottom: 34 + lines, left: legend + names, right: 60 + names };
}

/** What always stands on the map, as markup, which the library takes it for. */
function attributions({ meta: { attribution } }) {
  return [say("note"), ...(attribution ? [text("span", attribution).innerHTML] : [])];
}

export class MapView {
  /** `pick` is called with the unit and the event of a click, `tell` with what is under the pointer; it returns words. */
  constructor(data, backdrop, pick, tell) {
    this.data = data;
    this.backdrop = backdrop;
    this.drawn = null; // the level whose areas are in the map
    this.placed = {}; // and its shapes, by source
    this.noise = false; // whether the flows in it are
    this.tool = null; // what a click does instead of choosing an area
    this.map = new maplibregl.Map({
      container: "map",
      // No transitions: paper is drawn at once in its own colours.
      style: {
        version: 8,
        sources: {},
        layers: [{ id: "background", type: "background" }],
        transition: { duration: 0, delay: 0 },
      },
      bounds: extentOf(data),
      fitBoundsOptions: { padding: paddingOf(data) },
      attributionControl: false,
      maxPitch: 0,
      boxZoom: false, // a click with Shift adds to what is chosen
      maxZoom: MOST_ZOOM,
      fadeDuration: 0,
      // Without it browsers print an empty map.
      canvasContextAttributes: { preserveDrawingBuffer: true },
      locale: {
        "Map.Title": say("map_keys"),
        "NavigationControl.ZoomIn": say("zoom_in"),
        "NavigationControl.ZoomOut": say("zoom_out"),
        "NavigationControl.ResetBearing": say("reset_north"),
        "AttributionControl.ToggleAttribution": say("toggle_attribution"),
      },
    });
    this.map.addControl(new maplibregl.NavigationControl({ visualizePitch: false }), "top-right");
    this.scale = new maplibregl.ScaleControl({ maxWidth: 120 });
    this.map.addControl(this.scale, "bottom-left");
    this.map.addControl(new maplibregl.AttributionControl({ compact: false, customAttribution: attributions(data) }), "bottom-right");
    this.popup = new maplibregl.Popup({ closeButton: false, closeOnClick: false, offset: 10, maxWidth: "280px" });
    byId("map").map = this.map; // for whoever looks at the page from a console, or tests it
    this.ready = this.map.once("load").then(() => this.#prepare(pick, tell));
  }

  #prepare(pick, tell) {
    const { map } = this;
    for (const source of ["areas", "borders", "labels", "zones", "flows", "arrows", "selected", "dots", "drawing"]) {
      map.addSource(source, { type: "geojson", data: NOTHING, tolerance: 0 });
    }
    this.circles = new Circles(map.getZoom());
    const polygons = ["==", ["geometry-type"], "Polygon"];
    const points = ["==", ["geometry-type"], "Point"];
    const jobs = ["get", "width"];
    map.addLayer({ id: "land", type: "fill", source: "borders" });
    map.addLayer({ id: "fill", type: "fill", source: "areas" });
    for (const kind of ["water", "roads"]) {
      const geometries = this.backdrop[kind] ?? [];
      const features = geometries.map((geometry) => ({ type: "Feature", properties: {}, geometry }));
      map.addSource(kind, { type: "geojson", data: { type: "FeatureCollection", features }, tolerance: 0 });
    }
    map.addLayer({ id: "water", type: "fill", source: "water", filter: polygons });
    map.addLayer({ id: "river", type: "line", source: "water" });
    map.addLayer({ id: "roads", type: "line", source: "roads", layout: { "line-cap": "round" } });
    map.addLayer({ id: "borders", type: "line", source: "borders" });
    map.addLayer(this.circles);
    map.addLayer({ id: "zone", type: "circle", source: "zones" });
    const sorted = { "line-cap": "round", "line-sort-key": ["get", "order"] };
    map.addLayer({ id: "casing", type: "line", source: "flows", layout: sorted });
    map.addLayer({ id: "flow", type: "line", source: "flows", layout: sorted });
    map.addImage("arrow", arrowImage(), { sdf: true, pixelRatio: 2 });
    map.addLayer({
      id: "arrow",
      type: "symbol",
      source: "arrows",
      layout: {
        "icon-image": "arrow",
        "icon-size": ["interpolate", ["linear"], jobs, 0, 0.4, 1, 1.1],
        "icon-rotate": ["get", "turn"],
        "icon-rotation-alignment": "map",
        "icon-allow-overlap": true,
        "icon-ignore-placement": true,
        "symbol-sort-key": ["get", "order"],
      },
    });
    this.labels = labelFeatures(this.data);
    this.#set("labels", this.labels);
    map.addLayer({
      id: "label",
      type: "symbol",
      source: "labels",
      layout: {
        "icon-image": ["concat", "label ", ["get", "name"]],
        "icon-padding": 3,
        "symbol-sort-key": ["get", "order"], // where there is room for one, the first
      },
    });
    // Above other names, and so before them where there is room for one.
    map.addLayer({
      id: "zone-name",
      type: "symbol",
      source: "zones",
      layout: {
        "icon-image": ["concat", "zone ", ["get", "name"]],
        "icon-anchor": ["get", "anchor"],
        "icon-offset": [
          "match", ["get", "anchor"],
          "left", ["literal", [9, 0]], "right", ["literal", [-9, 0]], "top", ["literal", [0, 8]], ["literal", [0, -8]],
        ],
        "icon-padding": 0,
        "symbol-sort-key": ["-", ["get", "jobs"]], // where there is room for one, the name of the larger
      },
    });
    map.addLayer({ id: "chosen-halo", type: "line", source: "selected", filter: polygons });
    map.addLayer({ id: "chosen-line", type: "line", source: "selected", filter: polygons });
    map.addLayer({ id: "chosen-circle", type: "circle", source: "selected", filter: points });
    map.addLayer({ id: "chosen-dot", type: "circle", source: "dots" });
    map.addLayer({ id: "drawing", type: "line", source: "drawing" });
    map.addLayer({ id: "corner", type: "circle", source: "drawing", filter: points });
    const width = (extra) => ["+", extra, ["interpolate", ["linear"], jobs, 0, lineWidth(0), 1, lineWidth(1)]];
    map.setPaintProperty("flow", "line-width", width(0));
    map.setPaintProperty("casing", "line-width", width(1.5));
    map.setPaintProperty("chosen-halo", "line-width", 6);
    map.setPaintProperty("chosen-line", "line-width", 2.5);

    const under = ({ x, y }, layers, reach) =>
      map.queryRenderedFeatures([[x - reach, y - reach], [x + reach, y + reach]], { layers })[0];
    // A finger is less exact than a pointer; a polygon needs no reach, and with it would take in its neighbours.
    // Of what is small under a name, the name leaves the click to it.
    const zoneAt = (point) => under(point, ["zone"], 4);
    const nameAt = (point) => under(point, ["zone-name"], 0);
    const areaAt = ({ point, lngLat }) =>
      zoneAt(point)?.id ?? this.circles.at(lngLat, map.getZoom(), 4) ?? nameAt(point)?.id ?? under(point, ["fill"], 0)?.id ?? null;
    map.on("click", (event) => {
      if (this.tool) return this.tool([event.lngLat.lng, event.lngLat.lat]);
      const area = areaAt(event);
      if (area !== null) pick(area, event.originalEvent);
    });
    map.on("mousemove", (event) => {
      // Lines end at external zones, which are as small.
      const flow = (zoneAt(event.point) ?? nameAt(event.point)) ? null : under(event.point, ["flow"], 1);
      const area = areaAt(event);
      map.getCanvas().style.cursor = this.tool ? "crosshair" : area === null ? "" : "pointer";
      const words = this.tool ? null : flow ? tell.flow(flow.properties) : area === null ? null : tell.area(area);
      if (words) this.popup.setLngLat(event.lngLat).setDOMContent(words).addTo(map);
      else this.popup.remove();
    });
    map.on("mouseout", () => this.popup.remove());
    // A browser may take the graphics card away for a while; the library then restores neither states nor layers like this.
    map.on("webglcontextrestored", () =>
      map.once("style.load", () => {
        map.addLayer(this.circles, "zone");
        this.paint();
      }),
    );
    // Printing waits for no frame, so what it shows is a copy of the map and not the map.
    this.paper = document.createElement("canvas");
    this.paper.id = "paper";
    this.paper.ariaHidden = "true";
    map.getContainer().append(this.paper);
  }

  /** Take data with more levels. */
  setData(data) {
    this.data = data;
    this.drawn = null;
  }

  /** Wait until everything that was shown is drawn. */
  whenDrawn() {
    return new Promise((done) => {
      this.map.once("idle", done);
      this.map.triggerRepaint();
    });
  }

  /**
   * Draw the map for paper in the colours of now: the whole region, or just what the window shows of it. More than that comes after
   * some frames, and printing waits for none.
   */
  toPaper() {
    const { map } = this;
    this.onScreen = this.camera;
    const [extent, container] = [extentOf(this.data), map.getContainer()];
    const whole = extent.every((corner) => map.getBounds().contains(corner));
    const { clientWidth, clientHeight } = container;
    if (!whole) container.style.setProperty("--shape", clientWidth / clientHeight);
    document.body.classList.add("printing");
    map.resize();
    // The legend stands beside.
    if (whole) map.fitBounds(extent, { animate: false, padding: paddingOf(this.data, 10) });
    else map.jumpTo({ zoom: map.getZoom() + Math.log2(container.clientWidth / clientWidth) });
    const drawn = map.redraw().getCanvas();
    [this.paper.width, this.paper.height] = [drawn.width, drawn.height];
    this.paper.getContext("2d").drawImage(drawn, 0, 0);
    // Paper is as wide as it happens to be: the bar of the scale has its part of it.
    const bar = container.querySelector(".maplibregl-ctrl-scale");
    bar.style.width = `${(100 * bar.offsetWidth) / container.clientWidth}%`;
  }

  fromPaper() {
    document.body.classList.remove("printing");
    this.map.getContainer().style.removeProperty("--shape");
    this.map.resize();
    this.map.jumpTo(this.onScreen).redraw();
  }

  /**
   * Draw areas of a level, `coloured` by numbers in classes between `breaks`; densities are none of external zones.
   *
   * Of `differences`, which may be negative, say so, and which are `within` noise: (units that are one on the map, value) -> boolean.
   */
  showAreas(level, { coloured, breaks, dense, differences, within }) {
    if (this.drawn !== level) {
      this.#place("areas", level.shapes);
      this.circles.setLevel(level.shapes ? null : level);
      // Borders of the next coarser level that has shapes help to find one's way.
      this.#place("borders", this.data.levels.slice(0, this.data.levels.indexOf(level)).findLast((l) => l.shapes)?.shapes);
      this.drawn = level;
    }
    this.areas = { values: coloured, breaks, dense, differences, within };
    this.paint();
  }

  /** Put shapes into a source, unless they are there: years have the same, and tiles of them take a while. */
  #place(source, shapes = null) {
    if (this.placed[source] === shapes) return;
    this.map.getSource(source).setData(shapes ?? NOTHING);
    this.placed[source] = shapes;
  }

  /** Colours are states of the areas and not of their layer, which would need a while to change them. */
  #paintAreas() {
    const { drawn } = this;
    const { values, breaks, dense, differences, within } = this.areas;
    const largest = Math.max(1, largestInside(drawn, values.map(Math.abs)));
    const [ramp, land] = [rampColours(breaks.length + 1), colour("land")];
    const known = new Map(); // reading a colour from the style sheet takes a while
    const inClass = (value) => ramp[classOf(value, breaks)] ?? land;
    const differing = (value, units) => {
      const noise = within?.(units, value) ?? false;
      const key = noise ? "noise" : Math.sign(value) * (1 + classOf(Math.abs(value), breaks));
      if (!known.has(key)) known.set(key, differenceColour(value, breaks, noise));
      return known.get(key);
    };
    const fillOf = differences ? differing : inClass;
    this.circles.paint((unit) => fillOf(values[unit], [unit]), (unit) => Math.sqrt(Math.abs(values[unit]) / largest), colour("border-strong"));
    for (const { id } of drawn.shapes?.features ?? []) {
      this.map.setFeatureState({ source: "areas", id }, { colour: fillOf(values[id], [id]) });
    }
    for (const unit of drawn.externalZones.keys()) {
      const units = standingFor(drawn, unit);
      const all = units.reduce((sum, each) => sum + values[each], 0);
      this.map.setFeatureState({ source: "zones", id: unit }, { colour: dense ? "transparent" : fillOf(all, units) });
    }
  }

  #setImage(id, image) {
    // In place of another it is in the next frame; of one that was taken away and added, tiles are made anew.
    if (this.map.hasImage(id)) this.map.updateImage(id, image);
    else this.map.addImage(id, image, { pixelRatio: 2 });
  }

  showBackdrop(shown) {
    ["water", "river", "roads"].forEach((id) => this.map.setLayoutProperty(id, "visibility", shown ? "visible" : "none"));
  }

  showLabels(shown) {
    this.map.setLayoutProperty("label", "visibility", shown ? "visible" : "none");
  }

  /** Names of external zones and on the map, in the theme's colours. */
  #paintNames() {
    if (this.named === colour("ink")) return;
    this.named = colour("ink");
    for (const level of this.data.levels) {
      const names = [...level.externalZones.keys()].map((unit) => zoneName(level, standsFor(level, unit)));
      new Set(names).forEach((name) => this.#setImage(`zone ${name}`, nameImage(name)));
    }
    this.labels.forEach(({ properties: { name } }) => this.#setImage(`label ${name}`, nameImage(name, 22)));
  }

  /**
   * Draw flows; ends that are null are the selection's, others are units of the level, or of the cells if there are any.
   *
   * Arrows say which way they go, where that is not clear. Returns whether external zones are drawn.
   */
  showFlows(flows, { selection, level, cells, largest, arrowed }) {
    const own = selection?.place;
    const unitOf = (end) => (cells && end !== null ? cells[end].unit : end);
    const zonesOf = ({ home, work }) => [home, work].map(unitOf).filter((unit) => level.externalZones.has(unit));
    // Of many lines that cross each other the small ones are faint.
    const weightOf = (flow) => (cells ? 0.2 + 0.8 * (flow.jobs / largest) ** 0.5 : selection || !zonesOf(flow).length ? 1 : 0.35);
    // External zones that no line goes to or comes from are not drawn, unless they are chosen.
    const { over = [] } = selection?.cover(level) ?? {};
    const wanted = (unit) => over[unit] || this.areas.differences; // these have classes, and no lines
    const others = [...level.externalZones.keys()].filter(wanted).map((unit) => standsFor(level, unit));
    const zones = new Set([...flows.flatMap(zonesOf), ...others]);
    this.#set("zones", zoneFeatures(this.data, level, [...zones]));
    const end = (unit) => (unit === null ? own : (cells?.[unit].place ?? placeOf(level, unit)));
    const share = ({ jobs }) => jobs / largest;
    const features = flows.map((flow) => ({
      type: "Feature",
      // Those between areas inside lie over those of external zones, and the larger over the smaller.
      properties: { ...flow, width: share(flow), order: share(flow) + (zonesOf(flow).length ? 0 : 1), weight: weightOf(flow) },
      geometry: { type: "LineString", coordinates: bow(end(flow.home), end(flow.work)) },
    }));
    const both = arrowed ? features : [];
    const arrows = both.map(({ properties, geometry }) => arrowOn(geometry.coordinates, properties));
    if (this.noise !== Boolean(level.noise)) {
      this.noise = Boolean(level.noise);
      this.paint();
    }
    this.map.getSource("flows").setData({ type: "FeatureCollection", features });
    this.map.getSource("arrows").setData({ type: "FeatureCollection", features: arrows });
    return zones.size > 0;
  }

  showSelection(selection) {
    const areas = selection?.parts.filter(({ kind, level, unit }) => kind === "area" && !hasShape(level, unit)) ?? [];
    const points = areas.map(({ level, unit }) => pointFeature(level, unit));
    const dots = selection?.dots().map((unit) => pointFeature(this.data.finest, unit)) ?? [];
    this.#set("selected", [...(selection?.shapes() ?? []), ...points]);
    this.#set("dots", dots);
  }

  #set(source, features) {
    this.map.getSource(source).setData({ type: "FeatureCollection", features });
  }

  /** Bring a selection into view where it is not. */
  reveal(selection) {
    if (!this.map.getBounds().contains(selection.place)) this.map.panTo(selection.place, { animate: false });
  }

  zoomTo(selection) {
    const padding = paddingOf(this.data);
    this.map.fitBounds(selection ? selection.bounds : extentOf(this.data), { padding, maxZoom: 15, animate: false });
  }

  /** Call `tool` with the place of each click, instead of choosing what is there; null: choose again. */
  setTool(tool) {
    this.tool = tool;
    this.map.getCanvas().style.cursor = tool ? "crosshair" : "";
    if (tool) this.map.doubleClickZoom.disable();
    else this.map.doubleClickZoom.enable();
    this.showDrawing([]);
  }

  /** Draw the corners of an outline that is being made. */
  showDrawing(corners) {
    const line = { type: "Feature", properties: {}, geometry: { type: "LineString", coordinates: [...corners, corners[0]] } };
    const points = corners.map((coordinates) => ({ type: "Feature", properties: {}, geometry: { type: "Point", coordinates } }));
    this.#set("drawing", corners.length > 1 ? [line, ...points] : points);
  }

  /** What part of the map is seen. */
  get camera() {
    const { lng, lat } = this.map.getCenter();
    return { center: [lng, lat], zoom: this.map.getZoom(), bearing: this.map.getBearing() };
  }

  setCamera(camera) {
    this.map.jumpTo(camera);
  }

  setUnit(unit) {
    this.scale.setUnit(unit === "mi" ? "imperial" : "metric");
  }

  /** Take colours from the style sheet, again when the theme changes. */
  paint() {
    const { map } = this;
    this.#paintAreas();
    this.#paintNames();
    const fill = ["to-color", ["coalesce", ["feature-state", "colour"], "transparent"]];
    const flow = colour(this.noise ? "noise" : "flow");
    const faint = this.noise ? 0.4 : 1; // beside flows that are none of noise
    const properties = {
      background: { "background-color": colour("water") },
      // Its own outlines: a layer of lines takes a fifth of the time of a frame, without a graphics card.
      fill: { "fill-color": fill, "fill-outline-color": colour("border") },
      land: { "fill-color": colour("land") },
      water: { "fill-color": colour("water-body") },
      river: { "line-color": colour("water-body"), "line-width": 1 },
      roads: { "line-color": colour("road"), "line-width": ["interpolate", ["linear"], ["zoom"], 8, 0.8, 14, 3] },
      // Under circles they are no more than a background.
      borders: {
        "line-color": colour(this.drawn.shapes ? "border-strong" : "border"),
        "line-width": this.drawn.shapes ? 1.4 : 0.5,
      },
      zone: {
        "circle-color": fill,
        "circle-radius": 6,
        "circle-stroke-color": colour("border-strong"),
        "circle-stroke-width": 1,
      },
      casing: { "line-color": colour("flow-casing"), "line-opacity": ["*", ["get", "weight"], 0.5 * faint] },
      flow: {
        "line-color": flow,
        "line-opacity": [
          "*", ["get", "weight"], ["interpolate", ["linear"], ["get", "width"], 0, 0.55 * faint, 0.5, 0.95 * faint],
        ],
      },
      arrow: {
        "icon-color": flow,
        "icon-opacity": ["*", ["get", "weight"], faint],
        "icon-halo-color": colour("flow-casing"),
        "icon-halo-width": 1,
      },
      "chosen-halo": { "line-color": colour("flow-casing") },
      "chosen-line": { "line-color": colour("chosen") },
      "chosen-dot": { "circle-color": colour("chosen"), "circle-radius": 1.6 },
      drawing: { "line-color": colour("chosen"), "line-width": 2, "line-dasharray": [2, 1.5] },
      corner: { "circle-color": colour("chosen"), "circle-radius": 5 },
      "chosen-circle": {
        "circle-color": "transparent",
        "circle-radius": 10,
        "circle-stroke-color": colour("chosen"),
        "circle-stroke-width": 3,
      },
    };
    for (const [layer, paints] of Object.entries(properties)) {
      Object.entries(paints).forEach(([name, value]) => map.setPaintProperty(layer, name, value));
    }
  }
}
