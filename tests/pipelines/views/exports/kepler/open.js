// Opens a map as kepler.gl's file dialog does, with its own reducers, and writes what has become of it.
//
// Usage: NODE_PATH=.../node_modules node open.js MAP.json RESULT.json

const fs = require('fs');
const {applyMiddleware, combineReducers, createStore} = require('redux');
const {addDataToMap, registerEntry, wrapTo} = require('@kepler.gl/actions');
const {processKeplerglJSON} = require('@kepler.gl/processors');
const {default: keplerGlReducer, enhanceReduxMiddleware} = require('@kepler.gl/reducers');

const [, , map, result] = process.argv;
const store = createStore(
  combineReducers({keplerGl: keplerGlReducer}),
  applyMiddleware(...enhanceReduxMiddleware([]))
);
store.dispatch(registerEntry({id: 'map'}));
const saved = JSON.parse(fs.readFileSync(map, 'utf8'));
store.dispatch(wrapTo('map', addDataToMap(processKeplerglJSON(saved))));

// Data sets and layers are made by tasks; when there are none left, node is about to end.
process.once('beforeExit', () => {
  const {visState, mapStyle} = store.getState().keplerGl.map;
  const datasets = Object.values(visState.datasets).map(({id, label, fields, dataContainer}) => ({
    id,
    label,
    fields: fields.map(({name, type}) => [name, type]),
    rows: dataContainer.flattenData()
  }));
  const layers = visState.layers.map(({id, type, isValid, config, meta}, number) => ({
    id,
    type,
    isValid,
    dataset: config.dataId,
    isVisible: config.isVisible,
    color: config.colorField && config.colorField.name,
    size: config.sizeField && config.sizeField.name,
    columns: Object.fromEntries(
      Object.entries(config.columns)
        .filter(([, column]) => column.value !== null)
        .map(([name, column]) => [name, column.value])
    ),
    drawn: visState.layerData[number].data.length,
    bounds: meta.bounds
  }));
  fs.writeFileSync(result, JSON.stringify({datasets, layers, style: mapStyle.styleType}));
});
