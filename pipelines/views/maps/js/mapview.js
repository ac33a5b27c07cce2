// The map itself: MapLibre GL JS draws areas, flows and the selection; there is no background map, which would have
// to be fetched.

const NOTHING = { type: "FeatureCollection", features: [] };
const NOTE = "Synthetic workers, not real people";

function pointFeatures(level) {
  const features = [];
  level.codes.forEach((_, unit) => {
    if (level.externalZones.has(unit)) return;
    const coordinates = [level.longitude[unit], level.latitude[unit]];
    features.push({ type: "Feature", id: unit, properties: {}, geometry: { type: "Point", coordinates } });
  });
  return { type: "FeatureCollection", features };
}

/** [[west, south], [east, north]] of everything that can be drawn. */
function extentOf(data) {
  const box = [[180, 90], [-180, -90]];
  const add = ([x, y]) => {
    box[0] = [Math.min(box[0][0], x), Math.min(box[0][1], y)];
    box[1] = [Math.max(box[1][0], x), Math.max(box[1][1], y)];
  };
  const visit = (coordinates) => (typeof coordinates[0] === "number" ? add(coordinates) : coordinates.forEach(visit));
  const shown = data.levels.find((level) => level.shapes)?.shapes ?? pointFeatures(data.finest);
  shown.features.forEach((feature) => visit(feature.geometry.coordinates));
  return box;
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
  const context = canvas.getContext("2d");
  context.fill(new Path2D("M 16 2 L 29 29 L 16 23 L 3 29 Z"));
  return context.getImageData(0, 0, 32, 32);
}

/** Room for the legend, where there is room. */
const besideLegend = () => (window.innerWidth > 800 ? 248 : 30);

const placeOf = (level, unit) => [level.longitude[unit], level.latitude[unit]];

class MapView {
  /** `pick` is called with the unit that is clicked, `tell` with what is under the pointer; it returns words. */
  constructor(data, pick, tell) {
    this.data = data;
    this.drawn = null; // the level whose areas are in the map
    this.noise = false; // whether the flows in it are
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
      fitBoundsOptions: { padding: { top: 24, bottom: 34, left: besideLegend(), right: 60 } },
      attributionControl: false,
      maxPitch: 0,
      maxZoom: 16,
      fadeDuration: 0,
      // Without it browsers print an empty map.
      canvasContextAttributes: { preserveDrawingBuffer: true },
      locale: { "Map.Title": "Map. Arrow keys move it, plus and minus zoom; choose areas by the search field." },
    });
    this.map.addControl(new maplibregl.NavigationControl({ visualizePitch: false }), "top-right");
    this.scale = new maplibregl.ScaleControl({ maxWidth: 120 });
    this.map.addControl(this.scale, "bottom-left");
    this.map.addControl(new maplibregl.AttributionControl({ compact: false, customAttribution: NOTE }), "bottom-right");
    this.popup = new maplibregl.Popup({ closeButton: false, closeOnClick: false, offset: 10, maxWidth: "280px" });
    byId("map").map = this.map; // for whoever looks at the page from a console, or tests it
    this.ready = this.map.once("load").then(() => this.#prepare(pick, tell));
  }

  #prepare(pick, tell) {
    const { map } = this;
    for (const source of ["areas", "borders", "flows", "arrows", "selected"]) {
      map.addSource(source, { type: "geojson", data: NOTHING, tolerance: 0 });
    }
    this.startZoom = map.getZoom();
    const polygons = ["==", ["geometry-type"], "Polygon"];
    const points = ["==", ["geometry-type"], "Point"];
    const jobs = ["get", "width"];
    map.addLayer({ id: "land", type: "fill", source: "borders" });
    map.addLayer({ id: "fill", type: "fill", source: "areas", filter: polygons });
    map.addLayer({ id: "outline", type: "line", source: "areas", filter: polygons });
    map.addLayer({ id: "borders", type: "line", source: "borders" });
    map.addLayer({ id: "circle", type: "circle", source: "areas", filter: points });
    const sorted = { "line-cap": "round", "line-sort-key": jobs };
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
        "symbol-sort-key": jobs,
      },
    });
    map.addLayer({ id: "chosen-halo", type: "line", source: "selected", filter: polygons });
    map.addLayer({ id: "chosen-line", type: "line", source: "selected", filter: polygons });
    map.addLayer({ id: "chosen-circle", type: "circle", source: "selected", filter: points });
    const width = (extra) => ["+", extra, ["interpolate", ["linear"], jobs, 0, lineWidth(0), 1, lineWidth(1)]];
    map.setPaintProperty("flow", "line-width", width(0));
    map.setPaintProperty("casing", "line-width", width(1.5));
    map.setPaintProperty("chosen-halo", "line-width", 6);
    map.setPaintProperty("chosen-line", "line-width", 2.5);

    const under = ({ x, y }, layers, reach) =>
      map.queryRenderedFeatures([[x - reach, y - reach], [x + reach, y + reach]], { layers })[0];
    // A finger is less exact than a pointer; a polygon needs no reach, and with it would take in its neighbours.
    const areaAt = (point) => under(point, ["circle"], 4) ?? under(point, ["fill"], 0);
    map.on("click", (event) => {
      const area = areaAt(event.point);
      if (area) pick(area.id);
    });
    map.on("mousemove", (event) => {
      const flow = under(event.point, ["flow"], 1);
      const area = areaAt(event.point);
      map.getCanvas().style.cursor = area ? "pointer" : "";
      const words = flow ? tell.flow(flow.properties) : area ? tell.area(area.id) : null;
      if (words) this.popup.setLngLat(event.lngLat).setDOMContent(words).addTo(map);
      else this.popup.remove();
    });
    map.on("mouseout", () => this.popup.remove());
    this.#fitPaper();
  }

  /** Show the same part of the map on paper, which has another shape than the window. */
  #fitPaper() {
    const { map } = this;
    // Printing waits for no frame, so what it shows is a copy of the map and not the map.
    const paper = document.createElement("canvas");
    paper.id = "paper";
    paper.ariaHidden = "true";
    map.getContainer().append(paper);
    let before = null;
    const redraw = (printing) => {
      document.body.classList.toggle("printing", printing);
      map.resize();
    };
    window.addEventListener("beforeprint", () => {
      before = { center: map.getCenter(), zoom: map.getZoom(), bearing: map.getBearing() };
      const bounds = map.getBounds();
      redraw(true);
      map.fitBounds(bounds, { animate: false }).redraw();
      const drawn = map.getCanvas();
      [paper.width, paper.height] = [drawn.width, drawn.height];
      paper.getContext("2d").drawImage(drawn, 0, 0);
    });
    window.addEventListener("afterprint", () => {
      redraw(false);
      map.jumpTo(before).redraw();
    });
  }

  /** Draw areas of a level, coloured by `values` in classes between `breaks`. */
  showAreas(level, values, breaks) {
    const { map } = this;
    if (this.drawn !== level) {
      map.getSource("areas").setData(level.shapes ?? pointFeatures(level));
      // Borders of the next coarser level that has shapes help to find one's way.
      const coarser = this.data.levels.slice(0, this.data.levels.indexOf(level)).findLast((l) => l.shapes);
      map.getSource("borders").setData(coarser?.shapes ?? NOTHING);
      this.drawn = level;
    }
    Object.assign(this, { values, breaks });
    this.paint();
  }

  /** Colours are states of the areas and not of their layer, which would need a while to change them. */
  #paintAreas() {
    const { drawn, values, breaks } = this;
    const largest = Math.max(1, largestInside(drawn, values));
    const [ramp, land] = [rampColours(breaks.length + 1), colour("land")];
    values.forEach((value, unit) => {
      const state = { colour: ramp[classOf(value, breaks)] ?? land, size: Math.sqrt(value / largest) };
      this.map.setFeatureState({ source: "areas", id: unit }, state);
    });
  }

  /** Draw flows; ends that are null are the selection's. */
  showFlows(flows, selection, level, largest) {
    const end = (unit) => (unit === null ? placeOf(selection.level, selection.unit) : placeOf(level, unit));
    const features = flows.map((flow) => ({
      type: "Feature",
      properties: { ...flow, width: flow.jobs / largest },
      geometry: { type: "LineString", coordinates: bow(end(flow.home), end(flow.work)) },
    }));
    // All flows of a selection begin or end there.
    const both = selection ? [] : features;
    const arrows = both.map(({ properties, geometry }) => arrowOn(geometry.coordinates, properties));
    if (this.noise !== Boolean(level.noise)) {
      this.noise = Boolean(level.noise);
      this.paint();
    }
    this.map.getSource("flows").setData({ type: "FeatureCollection", features });
    this.map.getSource("arrows").setData({ type: "FeatureCollection", features: arrows });
  }

  showSelection(selection) {
    const shape = selection?.level.shapes?.features.find((feature) => feature.id === selection.unit);
    const point = selection && pointFeatures(selection.level).features.find((f) => f.id === selection.unit);
    this.map.getSource("selected").setData(shape ?? point ?? NOTHING);
  }

  /** Bring a selection into view where it is not. */
  reveal(selection) {
    const place = placeOf(selection.level, selection.unit);
    if (!this.map.getBounds().contains(place)) this.map.panTo(place, { animate: false });
  }

  setUnit(unit) {
    this.scale.setUnit(unit === "mi" ? "imperial" : "metric");
  }

  /** Take colours from the style sheet, again when the theme changes. */
  paint() {
    const { map } = this;
    this.#paintAreas();
    const fill = ["to-color", ["coalesce", ["feature-state", "colour"], "transparent"]];
    const most = Math.min(18, Math.max(4, 200 / Math.sqrt(this.drawn.codes.length)));
    const radius = ["+", 1.5, ["*", most - 1.5, ["coalesce", ["feature-state", "size"], 0]]];
    const flow = colour(this.noise ? "noise" : "flow");
    const faint = this.noise ? 0.4 : 1; // beside flows that are none of noise
    const none = ["==", ["coalesce", ["feature-state", "size"], 0], 0];
    const properties = {
      background: { "background-color": colour("water") },
      fill: { "fill-color": fill },
      outline: { "line-color": colour("border"), "line-width": 0.5 },
      land: { "fill-color": colour("land") },
      // Under circles they are no more than a background.
      borders: {
        "line-color": colour(this.drawn.shapes ? "border-strong" : "border"),
        "line-width": this.drawn.shapes ? 1.4 : 0.5,
      },
      circle: {
        "circle-color": fill,
        "circle-opacity": ["case", none, 0.5, 0.9],
        "circle-radius": [
          "interpolate", ["exponential", 1.6], ["zoom"],
          this.startZoom, radius, this.startZoom + 4, ["*", 4, radius],
        ],
        "circle-stroke-color": colour("border-strong"),
        "circle-stroke-width": ["case", none, 0, 0.5],
      },
      casing: { "line-color": colour("flow-casing"), "line-opacity": 0.5 * faint },
      flow: {
        "line-color": flow,
        "line-opacity": ["interpolate", ["linear"], ["get", "width"], 0, 0.55 * faint, 0.5, 0.95 * faint],
      },
      arrow: {
        "icon-color": flow,
        "icon-opacity": faint,
        "icon-halo-color": colour("flow-casing"),
        "icon-halo-width": 1,
      },
      "chosen-halo": { "line-color": colour("flow-casing") },
      "chosen-line": { "line-color": colour("chosen") },
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
